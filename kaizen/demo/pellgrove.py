"""Pellgrove Bakers: one bakehouse and eleven shops."""

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
    DemoTeam,
    RestrictedDocument,
)

PELLGROVE = DemoOrganization(
    slug="pellgrove",
    name="Pellgrove Bakers",
    business="Bakes bread in Matosinhos and sells it in eleven shops; 312 people.",
    time_zone="Europe/Lisbon",
    teams=(
        DemoTeam("People"),
        DemoTeam("Bakehouse"),
        DemoTeam("Night shift", parent="Bakehouse"),
        DemoTeam("Board"),
    ),
    members=(
        DemoMember("beatriz.lourenco@pellgrove.example", "Beatriz Lourenco", "admin"),
        DemoMember("samuel.teixeira@pellgrove.example", "Samuel Teixeira", "member", ("People",)),
        DemoMember(
            "joana.figueira@pellgrove.example", "Joana Figueira", "member", ("Night shift",)
        ),
        DemoMember("rui.cabral@pellgrove.example", "Rui Cabral", "member", ("Board",)),
        DemoMember(DANA, "Dana Kowalczyk", "member", ("People",)),
    ),
    projects=(
        DemoProject(
            "Shop in Aveiro",
            "Opening of the twelfth shop on 4 September 2026.",
            EVERYONE_VIEWS,
        ),
    ),
    sources=(
        DemoSource(
            "bakery-guide",
            "Bakery guide",
            "Families, holidays, shifts, hygiene, house rules and the first weeks.",
            EVERYONE_VIEWS,
        ),
        DemoSource(
            "money-and-travel",
            "Money and travel",
            "Trips, allowances, and who signs for which purchase.",
            EVERYONE_VIEWS,
        ),
        DemoSource(
            "bakehouse",
            "Bakehouse",
            "Recipes, cleaning and drills. For the bakehouse and its night shift.",
            (DemoGrant("team", "view", "Bakehouse"),),
        ),
        DemoSource(
            "group",
            "Group",
            "News, figures of the shops, and plans.",
            EVERYONE_VIEWS,
            project="Shop in Aveiro",
            restricted=(
                RestrictedDocument(
                    "acquisition-plan-project-millstone.docx",
                    (DemoGrant("team", "view", "Board"),),
                ),
            ),
        ),
        DemoSource(
            "people-confidential",
            "People, confidential",
            "Pay scales. For the People team only.",
            (DemoGrant("team", "view", "People"),),
        ),
    ),
    prompts=(
        DemoPrompt(
            "handbook-persona",
            "Handbook persona",
            HANDBOOK_PERSONA.format(name="Pellgrove Bakers"),
        ),
        DemoPrompt(
            "travel-persona", "Travel desk persona", TRAVEL_PERSONA.format(name="Pellgrove Bakers")
        ),
    ),
    agents=(
        DemoAgent(
            "handbook-assistant",
            "Handbook assistant",
            "Answers from everything that you may read here.",
            "handbook-persona",
            ("bakery-guide", "money-and-travel", "bakehouse", "group", "people-confidential"),
            EVERYONE_USES,
        ),
        DemoAgent(
            "travel-desk",
            "Travel desk",
            "Trips, allowances and claims; reads only money and travel.",
            "travel-persona",
            ("money-and-travel",),
            EVERYONE_USES,
        ),
    ),
)
