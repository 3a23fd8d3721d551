"""The demo's promises about itself: every name leads somewhere, every file can be read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kaizen.demo.shape import DemoGrant, DemoOrganization
from kaizen.demo.story import DEMO_QUESTIONS, DOCUMENTS, ORGANIZATIONS
from retrieval.ingest.parse import parse

FILES = sorted(path for path in DOCUMENTS.rglob("*") if path.is_file())


def _grants(organization: DemoOrganization) -> list[DemoGrant]:
    return [
        *(grant for source in organization.sources for grant in source.grants),
        *(
            grant
            for source in organization.sources
            for restricted in source.restricted
            for grant in restricted.grants
        ),
        *(grant for project in organization.projects for grant in project.grants),
        *(grant for agent in organization.agents for grant in agent.grants),
    ]


@pytest.mark.parametrize("organization", ORGANIZATIONS, ids=lambda o: o.slug)
def test_every_name_in_an_organization_leads_somewhere(organization: DemoOrganization) -> None:
    teams = {team.name for team in organization.teams}
    sources = {source.slug for source in organization.sources}
    emails = {member.email for member in organization.members}
    assert {team.parent for team in organization.teams} <= {*teams, ""}
    assert {name for member in organization.members for name in member.teams} <= teams
    assert {source.project for source in organization.sources} <= {
        "",
        *(project.name for project in organization.projects),
    }
    for agent in organization.agents:
        assert agent.prompt in {prompt.slug for prompt in organization.prompts}
        assert set(agent.sources) <= sources
    for task in organization.tasks:
        assert task.agent in {agent.slug for agent in organization.agents}
        assert task.owner in emails
    for grant in _grants(organization):
        known = {"everyone": {""}, "team": teams, "member": emails}[grant.kind]
        assert grant.name in known


@pytest.mark.parametrize("organization", ORGANIZATIONS, ids=lambda o: o.slug)
def test_the_folders_are_the_sources_and_restricted_files_exist(
    organization: DemoOrganization,
) -> None:
    folder = DOCUMENTS / organization.slug
    assert {path.name for path in folder.iterdir()} == {s.slug for s in organization.sources}
    for source in organization.sources:
        for restricted in source.restricted:
            assert (folder / source.slug / restricted.file).is_file()


def test_file_names_are_unique_and_use_nine_formats() -> None:
    assert [name for name, count in Counter(path.name for path in FILES).items() if count > 1] == []
    assert {path.suffix for path in FILES} == {
        ".md", ".txt", ".html", ".pdf", ".docx", ".pptx", ".xlsx", ".csv", ".eml",
    }  # fmt: skip


def test_every_question_names_a_member_an_agent_and_files_that_exist() -> None:
    names = {path.name for path in FILES}
    organizations = {organization.slug: organization for organization in ORGANIZATIONS}
    for question in DEMO_QUESTIONS:
        organization = organizations[question.organization]
        assert question.member in {member.email for member in organization.members}
        assert question.agent in {agent.slug for agent in organization.agents}
        assert {*question.must_not_cite, question.expected or FILES[0].name} <= names


def test_exactly_one_person_is_a_member_of_both_organizations() -> None:
    first, second = ({m.email for m in organization.members} for organization in ORGANIZATIONS)
    assert first & second == {"dana.kowalczyk@ledgerwell.example"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_document_can_be_read(path: Path) -> None:
    parsed = parse(path.read_bytes(), name=path.name)
    assert parsed.title
    assert sum(len(block.text.split()) for block in parsed.blocks) > 50
