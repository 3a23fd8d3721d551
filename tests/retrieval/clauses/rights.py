"""The clauses about which sources and documents are somebody's."""

from __future__ import annotations

from tests.retrieval import test_relation_functions as alone
from tests.retrieval import test_relation_passages as passages
from tests.retrieval.clauses.kinds import DOCUMENTS, LIVE, ORGANIZATION, SOURCES, Clause
from tests.retrieval.probes import MATCHING

MINE = "g.user_id = p_user"
OURS = "g.group_id = principals.id"
SOME_PRINCIPAL = "EXISTS (SELECT 1 FROM principals)"
NARROWED = "(p_only IS NULL OR s.key = ANY (p_only))"


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
        text="p.key = projects.key",
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

MATCHING_CLAUSES = [
    Clause(name=f"matching: {name}", where=MATCHING, text=text, test=test, given=given, nth=nth)
    for name, text, nth, test, given in (
        (
            "of this organisation",
            "d.organization_id = p_organization",
            (0,),
            passages.test_a_document_filed_under_another_organisation_fits_no_filter,
            {},
        ),
        (
            "with their own source",
            "s.id = d.source_id",
            (0,),
            passages.test_a_filter_opens_nothing,
            {},
        ),
        (
            "that aren't deleted",
            "d.deleted_at IS NULL",
            (0,),
            passages.test_a_deleted_document_fits_no_filter,
            {"branch": "source"},
        ),
        (
            "as their source, where they follow it",
            # The first place is a column of the answer.
            "d.acl_state = 'inherit'",
            (1,),
            passages.test_a_filter_opens_nothing,
            {},
        ),
        (
            "of sources that are granted",
            "s.key IN (SELECT sources.key FROM sources)",
            (0,),
            passages.test_a_filter_opens_nothing,
            {},
        ),
        (
            "or granted themselves",
            "d.key IN (SELECT documents.key FROM documents)",
            (0,),
            passages.test_a_filter_opens_nothing,
            {},
        ),
        *(
            (
                f"fits {name}",
                text,
                (0,),
                passages.test_a_filter_takes_away_what_does_not_fit,
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
