"""Every clause of the relation by name: where it stands, what it reads when taken out, and the test
that then fails.

A clause may stand in several places that guard the same thing: they are taken out together, and the
places are named. `ASIDE` lists the other conditions of these functions, each with why it is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.retrieval import test_relation as story
from tests.retrieval import test_relation_functions as alone
from tests.retrieval.probes import EXACT, MATCHING, NEAREST

PRINCIPALS = "accounts_principals"
SOURCES = "retrieval_visible_sources"
DOCUMENTS = "retrieval_granted_documents"
OWN, TEAM = "accounts.relation:OWN_GRANTS", "accounts.relation:TEAM_GRANTS"
SQL = (PRINCIPALS, SOURCES, DOCUMENTS, MATCHING, EXACT, NEAREST)
TEXTS = (OWN, TEAM)

ORGANIZATION = "g.organization_id = p_organization"
LIVE = "(g.expires_at IS NULL OR g.expires_at > now())"
MINE = "g.user_id = p_user"
OURS = "g.group_id = principals.id"
SOME_PRINCIPAL = "EXISTS (SELECT 1 FROM principals)"
NARROWED = "(p_only IS NULL OR s.key = ANY (p_only))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause. `nth` are its places among those of the same text, counted from 0."""

    name: str
    where: str
    text: str
    test: Callable[..., Any]
    given: Mapping[str, Any] = field(default_factory=dict)
    instead: str = "true"
    nth: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A condition that decides nothing about rights, wherever it stands in a function."""

    where: str
    text: str
    why: str


def _grants(where: str, kind: str, permissions: str, first: int, *, label: str) -> list[Clause]:
    """The eight clauses of a pair of grant look-ups: a person's, then their teams'.

    `first` is the place of the pair among those of the function.
    """
    found = []
    for at, who, principal in ((0, "person", MINE), (1, "team", OURS)):
        place = 2 * first + at
        given = {"kind": kind, "who": who}
        for name, text, test, nth in (
            (
                "organisation",
                ORGANIZATION,
                alone.test_a_grant_filed_under_another_organisation_counts_for_nothing,
                place,
            ),
            ("holder", principal, alone.test_a_grant_of_somebody_else_counts_for_nothing, first),
            (
                "verb",
                f"g.permission_id = ANY ({permissions})",
                alone.test_a_grant_counts_for_its_verb_only,
                at,
            ),
            ("end", LIVE, alone.test_a_grant_that_is_over_counts_for_nothing, place),
        ):
            found.append(
                Clause(
                    name=f"{label}, a {who}'s: {name}",
                    where=where,
                    text=text,
                    test=test,
                    given=given,
                    nth=(nth,),
                )
            )
    return found


PRINCIPAL_CLAUSES = [
    Clause(
        name="principals: the organisation is active",
        where=PRINCIPALS,
        text="o.state = 'active'",
        test=story.test_a_suspended_organisation_sees_nothing,
    ),
    Clause(
        name="principals: the membership's own organisation",
        where=PRINCIPALS,
        text="o.id = m.organization_id",
        test=alone.test_the_members_of_a_suspended_organisation_hold_nothing_while_others_are_active,
    ),
    Clause(
        name="principals: the person is active",
        where=PRINCIPALS,
        text="u.is_active",
        test=alone.test_a_deactivated_person_holds_nothing,
    ),
    Clause(
        name="principals: the membership's own person",
        where=PRINCIPALS,
        text="u.id = m.user_id",
        test=alone.test_a_deactivated_person_holds_nothing,
    ),
    Clause(
        name="principals: a membership of this organisation",
        where=PRINCIPALS,
        text="m.organization_id = p_organization",
        test=alone.test_a_member_suspended_here_holds_nothing_by_being_active_elsewhere,
    ),
    Clause(
        name="principals: a membership of this person",
        where=PRINCIPALS,
        text="m.user_id = p_user",
        test=alone.test_a_suspended_member_holds_nothing_through_everyone,
    ),
    Clause(
        name="principals: the membership is active",
        where=PRINCIPALS,
        text="m.state = 'active'",
        test=story.test_a_suspended_membership_sees_nothing,
    ),
    Clause(
        name="principals: teams of this organisation",
        where=PRINCIPALS,
        text="t.organization_id = p_organization",
        test=alone.test_what_another_organisations_everyone_holds_is_not_for_everyone_here,
    ),
    Clause(
        name="principals: nobody without a membership, not even everyone",
        where=PRINCIPALS,
        text="EXISTS (SELECT 1 FROM me)",
        test=alone.test_a_suspended_member_holds_nothing_through_everyone,
    ),
    Clause(
        name="principals: everyone is everyone's",
        where=PRINCIPALS,
        text="t.kind = 'everyone'",
        instead="false",
        test=story.test_a_grant_to_everyone_counts_for_every_member,
    ),
    Clause(
        name="principals: one's teams",
        where=PRINCIPALS,
        text="t.group_ptr_id IN ( SELECT x.team_id FROM accounts_teammembership x "
        "JOIN me ON x.membership_id = me.id WHERE x.organization_id = p_organization)",
        test=alone.test_a_grant_of_somebody_else_counts_for_nothing,
        given={"kind": "source", "who": "team"},
    ),
    Clause(
        name="principals: one's own places in teams",
        where=PRINCIPALS,
        text="x.membership_id = me.id",
        test=alone.test_a_grant_of_somebody_else_counts_for_nothing,
        given={"kind": "source", "who": "team"},
    ),
    Clause(
        name="principals: places in this organisation",
        where=PRINCIPALS,
        text="x.organization_id = p_organization",
        test=alone.test_a_place_in_a_team_filed_under_another_organisation_counts_for_nothing,
    ),
    Clause(
        name="principals: a team's parent, and no other team",
        where=PRINCIPALS,
        text="p.group_ptr_id = teams.parent_id",
        test=alone.test_a_team_with_a_parent_holds_what_the_parent_holds_and_no_more,
    ),
    Clause(
        name="principals: parents in this organisation",
        where=PRINCIPALS,
        text="p.organization_id = p_organization",
        test=alone.test_a_team_hung_on_another_organisations_team_gains_nothing_by_it,
    ),
]

SOURCE_CLAUSES = [
    *_grants(SOURCES, "project", "p_project_permissions", 0, label="sources by project grants"),
    *_grants(SOURCES, "source", "p_source_permissions", 1, label="sources by grants"),
    Clause(
        name="sources: those of the project itself",
        where=SOURCES,
        text="p.id = s.project_id",
        test=alone.test_a_grant_on_one_object_opens_no_other,
        given={"kind": "project"},
    ),
    Clause(
        name="sources: the project isn't archived",
        where=SOURCES,
        text="p.archived_at IS NULL",
        test=alone.test_an_archived_project_carries_no_source,
    ),
    Clause(
        name="sources: of projects that are granted",
        where=SOURCES,
        text="p.key IN (SELECT projects.key FROM projects)",
        test=alone.test_a_grant_on_one_object_opens_no_other,
        given={"kind": "project"},
    ),
    Clause(
        name="sources: of this organisation, whatever a grant points at",
        where=SOURCES,
        text="s.organization_id = p_organization",
        nth=(1,),
        test=alone.test_an_object_of_another_organisation_is_not_opened_by_a_grant_filed_here,
        given={"kind": "source"},
    ),
    Clause(
        name="sources: of this organisation, whatever a project carries (asked twice)",
        where=SOURCES,
        text="s.organization_id = p_organization",
        nth=(0, 1),
        test=alone.test_an_object_of_another_organisation_is_not_opened_by_a_grant_filed_here,
        given={"kind": "project"},
    ),
    Clause(
        name="sources: that are granted",
        where=SOURCES,
        text="granted.key = s.key",
        test=alone.test_a_grant_on_one_object_opens_no_other,
        given={"kind": "source"},
    ),
    Clause(
        name="sources: that aren't archived",
        where=SOURCES,
        text="s.archived_at IS NULL",
        test=alone.test_a_source_put_away_or_of_unknown_rights_is_nobodys,
        given={"branch": "source", "field": "archived_at"},
    ),
    Clause(
        name="sources: whose rights are known",
        where=SOURCES,
        text="s.acl_unknown_since IS NULL",
        test=alone.test_a_source_put_away_or_of_unknown_rights_is_nobodys,
        given={"branch": "source", "field": "acl_unknown_since"},
    ),
    Clause(
        name="sources: within the run's narrowing",
        where=SOURCES,
        text=NARROWED,
        test=alone.test_a_narrowing_leaves_its_own_sources_only,
        given={"branch": "source"},
    ),
    Clause(
        name="sources: for somebody who is somebody",
        where=SOURCES,
        text=SOME_PRINCIPAL,
        test=alone.test_a_suspended_member_holds_nothing_in_person,
        given={"kind": "source"},
    ),
]

DOCUMENT_CLAUSES = [
    *_grants(DOCUMENTS, "document", "p_document_permissions", 0, label="documents by grants"),
    Clause(
        name="documents: that are granted",
        where=DOCUMENTS,
        text="granted.key = d.key",
        test=alone.test_a_grant_on_one_object_opens_no_other,
        given={"kind": "document"},
    ),
    Clause(
        name="documents: with their own source",
        where=DOCUMENTS,
        text="s.id = d.source_id",
        test=alone.test_a_source_put_away_or_of_unknown_rights_is_nobodys,
        given={"branch": "document", "field": "archived_at"},
    ),
    Clause(
        name="documents: of sources that aren't archived",
        where=DOCUMENTS,
        text="s.archived_at IS NULL",
        test=alone.test_a_source_put_away_or_of_unknown_rights_is_nobodys,
        given={"branch": "document", "field": "archived_at"},
    ),
    Clause(
        name="documents: of sources whose rights are known",
        where=DOCUMENTS,
        text="s.acl_unknown_since IS NULL",
        test=alone.test_a_source_put_away_or_of_unknown_rights_is_nobodys,
        given={"branch": "document", "field": "acl_unknown_since"},
    ),
    Clause(
        name="documents: of this organisation, whatever a grant points at",
        where=DOCUMENTS,
        text="d.organization_id = p_organization",
        test=alone.test_an_object_of_another_organisation_is_not_opened_by_a_grant_filed_here,
        given={"kind": "document"},
    ),
    Clause(
        name="documents: that aren't deleted",
        where=DOCUMENTS,
        text="d.deleted_at IS NULL",
        test=alone.test_a_deleted_document_is_nobodys,
    ),
    Clause(
        name="documents: whose rights are known",
        where=DOCUMENTS,
        text="d.acl_state IN ('inherit', 'restricted')",
        test=alone.test_a_document_of_unknown_rights_is_nobodys,
    ),
    Clause(
        name="documents: within the run's narrowing",
        where=DOCUMENTS,
        text=NARROWED,
        test=alone.test_a_narrowing_leaves_its_own_sources_only,
        given={"branch": "document"},
    ),
    Clause(
        name="documents: for somebody who is somebody",
        where=DOCUMENTS,
        text=SOME_PRINCIPAL,
        test=alone.test_a_suspended_member_holds_nothing_in_person,
        given={"kind": "document"},
    ),
]

# Each replacement still takes the parameters of what it stands for.
_NO_ORGANIZATION = "(%s::uuid IS NULL OR true)"
_NO_PRINCIPALS = "(%s::uuid IS NULL OR %s::bigint IS NOT NULL)"


def _object_clause(
    where: str, name: str, text: str, instead: str, test: Callable[..., Any], **given: str
) -> Clause:
    whose = "a person's grants" if where == OWN else "a team's grants"
    return Clause(
        name=f"objects, {whose}: {name}",
        where=where,
        text=text,
        instead=instead,
        test=test,
        given={"kind": "bare project", **given},
    )


OBJECT_CLAUSES = [
    *(
        clause
        for where, who in ((OWN, "person"), (TEAM, "team"))
        for clause in (
            _object_clause(
                where,
                "organisation",
                "g.organization_id = %s",
                _NO_ORGANIZATION,
                alone.test_a_grant_filed_under_another_organisation_counts_for_nothing,
                who=who,
            ),
            _object_clause(
                where,
                "verb",
                "g.permission_id = ANY(%s)",
                "(%s::integer[] IS NULL OR true)",
                alone.test_a_grant_counts_for_its_verb_only,
                who=who,
            ),
            _object_clause(
                where,
                "end",
                LIVE,
                "true",
                alone.test_a_grant_that_is_over_counts_for_nothing,
                who=who,
            ),
        )
    ),
    _object_clause(
        OWN,
        "holder",
        "g.user_id = %s",
        "(%s::bigint IS NULL OR true)",
        alone.test_a_grant_of_somebody_else_counts_for_nothing,
        who="person",
    ),
    _object_clause(
        OWN,
        "for somebody who is somebody",
        "EXISTS (SELECT 1 FROM accounts_principals(%s, %s))",
        _NO_PRINCIPALS,
        alone.test_a_suspended_member_holds_nothing_in_person,
    ),
    _object_clause(
        TEAM,
        "holder",
        "g.group_id IN (SELECT accounts_principals(%s, %s))",
        _NO_PRINCIPALS,
        alone.test_a_grant_of_somebody_else_counts_for_nothing,
        who="team",
    ),
]

MATCHING_CLAUSES = [
    Clause(name=f"matching: {name}", where=MATCHING, text=text, test=test, given=given, nth=nth)
    for name, text, nth, test, given in (
        (
            "of this organisation",
            "d.organization_id = p_organization",
            (0,),
            alone.test_a_document_filed_under_another_organisation_fits_no_filter,
            {},
        ),
        (
            "with their own source",
            "s.id = d.source_id",
            (0,),
            alone.test_a_filter_opens_nothing,
            {},
        ),
        (
            "that aren't deleted",
            "d.deleted_at IS NULL",
            (0,),
            alone.test_a_deleted_document_fits_no_filter,
            {"branch": "source"},
        ),
        (
            "as their source, where they follow it",
            # The first place is a column of the answer.
            "d.acl_state = 'inherit'",
            (1,),
            alone.test_a_filter_opens_nothing,
            {},
        ),
        (
            "of sources that are granted",
            "s.key IN (SELECT sources.key FROM sources)",
            (0,),
            alone.test_a_filter_opens_nothing,
            {},
        ),
        (
            "or granted themselves",
            "d.key IN (SELECT documents.key FROM documents)",
            (0,),
            alone.test_a_filter_opens_nothing,
            {},
        ),
        *(
            (
                f"fits {name}",
                text,
                (0,),
                alone.test_a_filter_takes_away_what_does_not_fit,
                {"name": name, "fits": fits, "misses": misses},
            )
            for name, text, fits, misses in (
                (
                    "types",
                    "(NOT p_filter ? 'types' OR p_filter->'types' ? d.media_type)",
                    ["text/a"],
                    ["text/b"],
                ),
                (
                    "authors",
                    "(NOT p_filter ? 'authors' OR p_filter->'authors' ? d.author)",
                    ["Ada"],
                    ["Bob"],
                ),
                (
                    "tags",
                    "(NOT p_filter ? 'tags' OR d.tags && "
                    "ARRAY(SELECT jsonb_array_elements_text(p_filter->'tags'))::varchar[])",
                    ["x"],
                    ["z"],
                ),
                (
                    "after",
                    "(NOT p_filter ? 'after' OR coalesce(d.dated_at, d.updated_at) "
                    ">= (p_filter->>'after')::timestamptz)",
                    "2030-01-01T00:00:00Z",
                    "2030-01-03T00:00:00Z",
                ),
                (
                    "before",
                    "(NOT p_filter ? 'before' OR coalesce(d.dated_at, d.updated_at) "
                    "< (p_filter->>'before')::timestamptz)",
                    "2030-01-03T00:00:00Z",
                    "2030-01-01T00:00:00Z",
                ),
            )
        ),
    )
]


_FITS = "(p_must IS NULL OR retrieval_fits(p_organization_key, v.chunk_key, p_must))"


def _meaning_clause(
    where: str,
    name: str,
    text: str,
    test: Callable[..., Any],
    nth: int = 0,
    **given: str,
) -> Clause:
    return Clause(
        name=f"{where}: {name}",
        where=where,
        text=text,
        test=test,
        given={"function": where, **given},
        nth=(nth,),
    )


def _by_branch(
    where: str, name: str, text: str, test: Callable[..., Any], **given: str
) -> list[Clause]:
    """A clause that stands once for whole sources and once for single documents."""
    return [
        _meaning_clause(where, f"{name}, by {branch}", text, test, nth, branch=branch, **given)
        for nth, branch in enumerate(("source", "document"))
    ]


_INDEX = alone.test_by_meaning_rows_of_another_organisation_or_space_are_not_read
_OTHER = alone.test_by_meaning_one_grant_opens_no_other_passage
_RESTRICTED = alone.test_by_meaning_a_restricted_document_does_not_follow_its_source
_ONCE = alone.test_by_meaning_a_passage_that_is_open_in_two_ways_comes_once
_FILTER = alone.test_by_meaning_a_filter_holds_in_every_way
_WITHOUT = alone.test_by_meaning_excluded_words_hold_in_every_way
_IN_SOURCES = "v.source_key IN (SELECT sources.key FROM sources)"

EXACT_CLAUSES = [
    *_by_branch(EXACT, "only without a filter", "p_filter IS NULL", _FILTER),
    *_by_branch(
        EXACT,
        "organisation",
        "v.organization_key = p_organization_key",
        _INDEX,
        column="organization_key",
    ),
    *_by_branch(EXACT, "space", "v.space_key = p_space", _INDEX, column="space_key"),
    *_by_branch(EXACT, "words that must or must not stand there", _FITS, _WITHOUT),
    _meaning_clause(
        EXACT, "of sources that are open", "v.source_key = sources.key", _OTHER, branch="source"
    ),
    _meaning_clause(EXACT, "that follow their source", "v.inherits", _RESTRICTED),
    _meaning_clause(
        EXACT,
        "of documents that are open",
        "v.document_key = documents.key",
        _OTHER,
        branch="document",
    ),
    _meaning_clause(EXACT, "not twice", f"NOT (v.inherits AND {_IN_SOURCES})", _ONCE),
    _meaning_clause(EXACT, "not twice, where it follows its source", "v.inherits", _ONCE, 1),
    _meaning_clause(
        EXACT, "not twice, where its source is open", _IN_SOURCES, _OTHER, branch="document"
    ),
]

NEAREST_CLAUSES = [
    *_by_branch(NEAREST, "only without a filter", "p_filter IS NULL", _FILTER),
    _meaning_clause(
        NEAREST,
        "organisation",
        "v.organization_key = p_organization_key",
        _INDEX,
        branch="source",
        column="organization_key",
    ),
    _meaning_clause(
        NEAREST, "space", "v.space_key = p_space", _INDEX, branch="source", column="space_key"
    ),
    _meaning_clause(
        NEAREST, "words that must or must not stand there", _FITS, _WITHOUT, branch="source"
    ),
    _meaning_clause(NEAREST, "that follow their source", "v.inherits", _RESTRICTED),
    _meaning_clause(NEAREST, "of sources that are open", _IN_SOURCES, _OTHER, branch="source"),
    _meaning_clause(
        NEAREST,
        "of documents that are open",
        "v.document_key IN (SELECT documents.key FROM documents)",
        _OTHER,
        branch="source",
    ),
]

QUERYSET_CLAUSES = [
    Clause(name=name, where=where, text=text, instead=instead, test=test)
    for name, where, text, instead, test in (
        (
            "queryset: documents that follow their source",
            "retrieval.acl:visible_documents",
            "acl_state=Document.AclState.INHERIT,",
            "",
            story.test_a_restricted_document_is_not_shown_by_its_sources_grant,
        ),
        (
            "queryset: documents of sources that are open",
            "retrieval.acl:visible_documents",
            "source__key__in=_raw(source_keys(authority, verb)),",
            "",
            story.test_nothing_is_seen_without_a_grant,
        ),
        (
            "queryset: documents that are open themselves",
            "retrieval.acl:visible_documents",
            "Q(key__in=_raw(document_keys(authority, verb)))",
            "Q(pk__isnull=False)",
            story.test_nothing_is_seen_without_a_grant,
        ),
        (
            "queryset: documents of this organisation",
            "retrieval.acl:_living_documents",
            "organization_id=authority.organization_id,",
            "",
            alone.test_a_document_filed_under_another_organisation_is_nobodys,
        ),
        (
            "queryset: documents that aren't deleted",
            "retrieval.acl:_living_documents",
            "deleted_at=None",
            "",
            story.test_a_deleted_document_is_shown_to_nobody,
        ),
        (
            "queryset: objects of this organisation",
            "accounts.relation:visible",
            "organization_id=authority.organization_id,",
            "",
            alone.test_a_project_of_another_organisation_is_not_opened_by_a_grant_filed_here,
        ),
    )
]

CLAUSES = [
    *PRINCIPAL_CLAUSES,
    *SOURCE_CLAUSES,
    *DOCUMENT_CLAUSES,
    *OBJECT_CLAUSES,
    *MATCHING_CLAUSES,
    *EXACT_CLAUSES,
    *NEAREST_CLAUSES,
    *QUERYSET_CLAUSES,
]
_NO_ROWS = "Without a filter that function answers nothing anyway: this saves asking it."
ASIDE = [
    Aside(where=EXACT, text="p_filter IS NOT NULL", why=_NO_ROWS),
    Aside(where=NEAREST, text="p_filter IS NOT NULL", why=_NO_ROWS),
]
