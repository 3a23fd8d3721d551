"""Explanations of access in plain sentences, for the admin and the API.

Promises: one whole sentence a step, nothing glued from pieces. Not for: finding out what holds
(`retrieval.access.explain`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import pairwise

from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from accounts.explain import Chain
from retrieval.access.explain import Explanation, Lack, Link, Path, Thing


def answer_sentence(explanation: Explanation) -> str:
    """Yes or no."""
    values = {
        "person": explanation.person,
        "verb": explanation.verb.value,
        "document": name_of(explanation.document),
    }
    if explanation.visible:
        return _("Yes: %(person)s holds “%(verb)s” on “%(document)s”.") % values
    return _("No: %(person)s does not hold “%(verb)s” on “%(document)s”.") % values


def path_sentences(explanation: Explanation, path: Path) -> list[str]:
    """How one grant leads from the person to the document, a sentence a step."""
    return [
        *_principal_sentences(explanation.person, path.principal),
        *_grant_sentences(path),
        *(_step_sentence(outer, inner) for outer, inner in pairwise(path.things)),
    ]


def lack_sentence(explanation: Explanation, lack: Lack) -> str:
    """The first missing link."""
    ended = lack.path.grant.expires_at if lack.path else None
    verb = lack.path.grant.verb.value if lack.path else ""
    return _LACKS[lack.link]() % {
        "person": explanation.person,
        "ended": when(ended) if ended else "",
        "verb": verb,
    }


def name_of(thing: Thing) -> str:
    """What a thing is called, or its id for who may not know that."""
    return thing.name or str(thing.id)


def when(moment: datetime) -> str:
    """A time as a person reads it, with its zone."""
    local = localtime(moment)
    return f"{date_format(local, 'DATETIME_FORMAT')} {local.tzname()}"


def _principal_sentences(person: str, principal: Chain) -> list[str]:
    if principal.kind == "person":
        return [_("%(person)s was granted this in person.") % {"person": person}]
    if principal.kind == "everyone":
        return [_("Everyone in the organisation was granted this.")]
    first = principal.teams[0].label
    return [
        _("%(person)s is in the team “%(team)s”.") % {"person": person, "team": first},
        *(
            _("The team “%(inner)s” is part of “%(outer)s”.")
            % {"inner": inner.label, "outer": outer.label}
            for inner, outer in pairwise(principal.teams)
        ),
    ]


def _grant_sentences(path: Path) -> list[str]:
    grant, thing = path.grant, path.things[0]
    texts = {
        "project": _("The grant is “%(verb)s” on the project “%(name)s”."),
        "source": _("The grant is “%(verb)s” on the source “%(name)s”."),
        "document": _("The grant is “%(verb)s” on the document itself, “%(name)s”."),
    }
    sentences = [texts[thing.kind] % {"verb": grant.verb.value, "name": name_of(thing)}]
    if grant.expires_at is not None:
        text = _("It ended on %(end)s.") if grant.is_over else _("It ends on %(end)s.")
        sentences.append(text % {"end": when(grant.expires_at)})
    return sentences


def _step_sentence(outer: Thing, inner: Thing) -> str:
    if outer.kind == "project":
        return _("The source “%(name)s” is in that project.") % {"name": name_of(inner)}
    return _("The document “%(name)s” is visible as its source is.") % {"name": name_of(inner)}


_LACKS: dict[Link, Callable[[], str]] = {
    Link.ORGANIZATION_SUSPENDED: lambda: _("The organisation is suspended."),
    Link.PERSON_DEACTIVATED: lambda: _("The account of %(person)s is deactivated."),
    Link.MEMBERSHIP_NOT_ACTIVE: lambda: _(
        "The membership of %(person)s is not active: they are invited only, or suspended."
    ),
    Link.DOCUMENT_DELETED: lambda: _("The document is deleted."),
    Link.SOURCE_ARCHIVED: lambda: _("The source of the document is archived."),
    Link.SOURCE_RIGHTS_UNKNOWN: lambda: _(
        "The rights in the source system can't be read. Until they can, nobody sees the source."
    ),
    Link.DOCUMENT_RIGHTS_UNKNOWN: lambda: _(
        "The document's rights are unknown. Until somebody sets them, nobody sees it."
    ),
    Link.NO_OWN_GRANT: lambda: _(
        "The document is restricted to its own grants, and none of them is for %(person)s."
    ),
    Link.NO_GRANT: lambda: _(
        "No grant on the document, its source or its project is for %(person)s."
    ),
    Link.GRANT_EXPIRED: lambda: _("The grant that would do ended on %(ended)s."),
    Link.VERB_TOO_WEAK: lambda: _("There is a grant, but “%(verb)s” doesn't reach that far."),
    Link.PROJECT_ARCHIVED: lambda: _(
        "There is a grant on the project, but the project is archived."
    ),
    Link.NARROWED: lambda: _("The run may not use the document's source."),
}
