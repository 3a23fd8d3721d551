"""The clauses about who somebody is, about grants on any object, and about the querysets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.retrieval import test_relation as story
from tests.retrieval import test_relation_functions as alone
from tests.retrieval.clauses.kinds import LIVE, OWN, PRINCIPALS, TEAM, Clause

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
