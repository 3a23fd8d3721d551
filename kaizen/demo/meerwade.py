"""Meerwade Hydrometrics: river gauges and flood alarms."""

from __future__ import annotations

from kaizen.demo.personas import DANA, HANDBOOK_PERSONA, TRAVEL_PERSONA
from kaizen.demo.shape import (
    EVERYONE_USES,
    EVERYONE_VIEWS,
    DemoAgent,
    DemoGrant,
    DemoMember,
    DemoOrganization,
    DemoProject,
    DemoPrompt,
    DemoSource,
    DemoTask,
    DemoTeam,
    RestrictedDocument,
)

MEERWADE = DemoOrganization(
    slug="meerwade",
    name="Meerwade Hydrometrics",
    business="Builds river gauges and flood alarms in Utrecht; 143 people.",
    time_zone="Europe/Amsterdam",
    teams=(
        DemoTeam("People"),
        DemoTeam("Engineering"),
        DemoTeam("Field Service", parent="Engineering"),
        DemoTeam("Board"),
    ),
    members=(
        DemoMember("ilse.vandermolen@meerwade.example", "Ilse Vandermolen", "admin", ("Board",)),
        DemoMember("ruben.achterberg@meerwade.example", "Ruben Achterberg", "member", ("People",)),
        DemoMember(
            "noor.silvestri@meerwade.example", "Noor Silvestri", "member", ("Field Service",)
        ),
        DemoMember(
            "petra.lindqvist@meerwade.example", "Petra Lindqvist", "member", ("Engineering",)
        ),
        DemoMember(DANA, "Dana Kowalczyk", "member"),
    ),
    projects=(
        DemoProject(
            "Autumn flood readiness",
            "All RG-4 gauges on firmware 5.3.2 and every alarm line tested before 1 November.",
            (DemoGrant("team", "view", "Engineering"),),
        ),
    ),
    sources=(
        DemoSource(
            "staff-handbook",
            "Staff handbook",
            "Leave, sickness, working from home, conduct, IT and the first week.",
            EVERYONE_VIEWS,
        ),
        DemoSource(
            "travel-and-purchasing",
            "Travel and purchasing",
            "Trips, allowances, and who approves which purchase.",
            EVERYONE_VIEWS,
        ),
        DemoSource(
            "field-operations",
            "Field operations",
            "Installing, calibrating and reviewing gauges. For Engineering and Field Service.",
            (DemoGrant("team", "view", "Engineering"),),
            project="Autumn flood readiness",
        ),
        DemoSource(
            "company",
            "Company",
            "Products, town halls and plans.",
            EVERYONE_VIEWS,
            restricted=(
                RestrictedDocument(
                    "acquisition-plan-project-heron.docx", (DemoGrant("team", "view", "Board"),)
                ),
            ),
        ),
        DemoSource(
            "people-confidential",
            "People, confidential",
            "Salary bands. For the People team only.",
            (DemoGrant("team", "view", "People"),),
        ),
    ),
    prompts=(
        DemoPrompt(
            "handbook-persona",
            "Handbook persona",
            HANDBOOK_PERSONA.format(name="Meerwade Hydrometrics"),
        ),
        DemoPrompt(
            "travel-persona",
            "Travel desk persona",
            TRAVEL_PERSONA.format(name="Meerwade Hydrometrics"),
        ),
    ),
    agents=(
        DemoAgent(
            "handbook-assistant",
            "Handbook assistant",
            "Answers from everything that you may read here.",
            "handbook-persona",
            (
                "staff-handbook",
                "travel-and-purchasing",
                "field-operations",
                "company",
                "people-confidential",
            ),
            EVERYONE_USES,
        ),
        DemoAgent(
            "travel-desk",
            "Travel desk",
            "Trips, allowances and claims; reads only the travel and purchasing policies.",
            "travel-persona",
            ("travel-and-purchasing",),
            EVERYONE_USES,
        ),
    ),
    tasks=(
        DemoTask(
            name="Weekly field digest",
            owner="noor.silvestri@meerwade.example",
            agent="handbook-assistant",
            prompt=(
                "Write the Monday digest for Field Service: which rules for installing and "
                "calibrating gauges matter this week, and which actions from the last alarm review "
                "are still open. "
                "At most ten lines, each with its source."
            ),
            cron="0 8 * * 1",
            time_zone="Europe/Amsterdam",
        ),
    ),
)
