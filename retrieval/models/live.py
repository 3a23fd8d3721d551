"""Live sources: servers that are asked at the moment of a question, each member with their own
account. Nothing of them is indexed.

What a read brought is kept encrypted for a short while, so that the run that asked can go on with
it; it goes with the account it was read under.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from accounts.models import Membership
from kaizen.kernel.clock import now
from kaizen.kernel.models import ExactJSONField, OrganizationModel
from kaizen.kernel.secrets import EncryptedTextField
from retrieval.models.library import Source

LONGEST_ADDRESS = 2_000


class LiveSource(OrganizationModel):
    """A server behind a source. Name, grants and archiving are the source's; the address never
    changes, since members' tokens are sent there.
    """

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="+")
    url = models.CharField(_("address"), max_length=LONGEST_ADDRESS, editable=False)
    # The protocol's version that it was last seen to speak; "" before it was asked.
    protocol = models.CharField(max_length=16, blank=True, editable=False)
    asked_at = models.DateTimeField(_("asked for its tools"), null=True, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        verbose_name = _("live source")
        verbose_name_plural = _("live sources")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "source"], name="live_source_once")
        ]

    def __str__(self) -> str:
        return str(self.source)


class LiveTool(OrganizationModel):
    """A tool as the server declared it when it was last asked, and whether it may be read with.

    `digest` is of what was decided about: a tool that is declared otherwise isn't called.
    """

    live_source = models.ForeignKey(LiveSource, on_delete=models.CASCADE, related_name="tools")
    name = models.CharField(max_length=128)
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    schema = ExactJSONField(default=dict)
    # What the server says of it. Only a hint: an admin decides.
    read_only = models.BooleanField(default=False)
    digest = models.CharField(max_length=64)
    allowed = models.BooleanField(default=False)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "live_source", "name"], name="live_tool_once"
            )
        ]

    def __str__(self) -> str:
        return self.name


class MemberCredential(OrganizationModel):
    """A member's own token for a live source. Written, sent to that server, never read back."""

    membership = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="+")
    live_source = models.ForeignKey(LiveSource, on_delete=models.CASCADE, related_name="+")
    token = EncryptedTextField()
    created_at = models.DateTimeField(default=now)
    last_used_at = models.DateTimeField(null=True)
    # A sentence of ours, never the server's.
    last_error = models.CharField(max_length=300, blank=True)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "membership", "live_source"], name="member_credential_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.membership_id} at {self.live_source_id}"


class LiveResult(OrganizationModel):
    """What a read brought, for the run that asked. Equal text is the same row."""

    credential = models.ForeignKey(MemberCredential, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    text = EncryptedTextField()
    read_at = models.DateTimeField(default=now)
    kept_until = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "credential", "digest"], name="live_result_once"
            )
        ]
        indexes: ClassVar = [models.Index(fields=["kept_until"], name="live_result_end")]

    def __str__(self) -> str:
        return self.digest[:12]
