"""Changes to sources. Each checks the relation, changes, and writes its audit event as one unit.

Not for: what lies in a source (`retrieval.documents`).
"""

from __future__ import annotations

from django.db import IntegrityError, transaction

from accounts.authority import Authority, Capability
from accounts.models import Project, User
from accounts.permissions import Verb
from accounts.sharing import grant
from audit.record import record
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Invalid, Missing
from kaizen.kernel.text import is_blank, make_storable
from retrieval.acl import get_source
from retrieval.details import short_text
from retrieval.models import Source


@transaction.atomic
def create_source(
    authority: Authority, *, name: str, description: str = "", project: Project | None = None
) -> Source:
    """A new source that its maker manages; nobody else sees it yet.

    Raises Denied without the capability to configure, Invalid or Conflict for the name.
    """
    authority.check(Capability.CONFIGURE)
    source = Source(
        organization_id=authority.organization_id,
        name=_name(name),
        description=_description(description),
        project=_own_project(authority, project),
    )
    _save_source(source)
    record(authority, "retrieval.source_created", subject=source)
    maker = User.objects.get(pk=authority.user_id)
    grant(authority, principal=maker, verb=Verb.MANAGE, obj=source)
    return source


@transaction.atomic
def update_source(
    authority: Authority,
    *,
    source: Source,
    name: str | None = None,
    description: str | None = None,
) -> Source:
    """Rename or describe a source. Raises Missing, Denied, Invalid, Conflict."""
    source = _governed_source(authority, source, Verb.CHANGE)
    if name is not None:
        source.name = _name(name)
    if description is not None:
        source.description = _description(description)
    _save_source(source)
    changed = [
        key for key, value in (("name", name), ("description", description)) if value is not None
    ]
    record(authority, "retrieval.source_changed", subject=source, data={"fields": changed})
    return source


@transaction.atomic
def move_source(authority: Authority, *, source: Source, project: Project | None) -> Source:
    """Put a source into a project, or take it out; who may see it changes at once. Needs manage."""
    source = _governed_source(authority, source, Verb.MANAGE)
    source.project = _own_project(authority, project)
    source.save(update_fields=["project"])
    data = {"project": str(project.id) if project else None}
    record(authority, "retrieval.source_changed", subject=source, data=data)
    return source


@transaction.atomic
def archive_source(authority: Authority, *, source: Source) -> None:
    """Take a source with all its documents out of everybody's sight; nothing is removed.

    Needs manage.
    """
    source = _governed_source(authority, source, Verb.MANAGE)
    source.archived_at = now()
    source.save(update_fields=["archived_at"])
    record(authority, "retrieval.source_changed", subject=source, data={"archived": True})


def _governed_source(authority: Authority, source: Source, verb: Verb) -> Source:
    """The source, locked, if the caller holds `verb` on it or configures the organisation."""
    if not authority.may(Capability.CONFIGURE):
        get_source(authority, source.pk, verb)
    found: Source | None = (
        Source.objects.select_for_update(no_key=True)
        .filter(organization_id=authority.organization_id, pk=source.pk, archived_at=None)
        .first()
    )
    if found is None:
        raise Missing
    return found


def _own_project(authority: Authority, project: Project | None) -> Project | None:
    if project is not None and project.organization_id != authority.organization_id:
        raise Missing
    return project


def _save_source(source: Source) -> None:
    try:
        with transaction.atomic():
            source.save()
    except IntegrityError:
        raise Conflict("There is a source of this name already.", code="name_taken") from None


def _name(name: str) -> str:
    text = " ".join(make_storable(name).text.split())
    if is_blank(text):
        raise Invalid("A source needs a name.", code="blank_name")
    return short_text(text, 120, "name")


def _description(description: str) -> str:
    return short_text(description, 4_000, "description")
