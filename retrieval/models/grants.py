"""Grants on sources and documents: direct foreign keys, one table a principal's kind."""

from __future__ import annotations

from django.db import models

from accounts.permissions import (
    TeamGrantBase,
    UserGrantBase,
    team_grant_constraints,
    user_grant_constraints,
)
from retrieval.models.library import Document, Source


class SourceUserGrant(UserGrantBase):
    """A person's grant on a source."""

    content_object = models.ForeignKey(
        Source, to_field="key", on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        default_permissions = ()
        unique_together = user_grant_constraints("source_ug")["unique_together"]
        indexes = user_grant_constraints("source_ug")["indexes"]


class SourceTeamGrant(TeamGrantBase):
    """A team's grant on a source."""

    content_object = models.ForeignKey(
        Source, to_field="key", on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        default_permissions = ()
        unique_together = team_grant_constraints("source_tg")["unique_together"]
        indexes = team_grant_constraints("source_tg")["indexes"]


class DocumentUserGrant(UserGrantBase):
    """A person's grant on one document."""

    content_object = models.ForeignKey(
        Document, to_field="key", on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        default_permissions = ()
        unique_together = user_grant_constraints("document_ug")["unique_together"]
        indexes = user_grant_constraints("document_ug")["indexes"]


class DocumentTeamGrant(TeamGrantBase):
    """A team's grant on one document."""

    content_object = models.ForeignKey(
        Document, to_field="key", on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        default_permissions = ()
        unique_together = team_grant_constraints("document_tg")["unique_together"]
        indexes = team_grant_constraints("document_tg")["indexes"]
