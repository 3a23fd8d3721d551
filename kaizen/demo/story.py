"""The demo's story: two organisations, what lies in them, and what `make demo` asks.

Promises: every name that refers to another (team, source, prompt, project, member, file) exists in
the same organisation; file names are unique across both, so that a cited name says whose it is.
Not for: loading (a management command does it) or text (`documents/<organisation>/<source>/`).
"""

from __future__ import annotations

from pathlib import Path

from kaizen.demo.meerwade import MEERWADE
from kaizen.demo.pellgrove import PELLGROVE
from kaizen.demo.personas import DANA
from kaizen.demo.shape import DemoQuestion

DOCUMENTS = Path(__file__).parent / "documents"
DEMO_PASSWORD = "kaizen-demo"  # noqa: S105 - public on purpose: the sign-in page shows it

ORGANIZATIONS = (MEERWADE, PELLGROVE)

_PARENTAL = "How many days of parental leave do we get?"
_ALLOWANCE = "What is the travel daily allowance?"
_PURCHASE = "Who approves a purchase above 5,000 euros?"
_SALARY = "What are the salary bands for level 4 engineers?"
_NOOR = "noor.silvestri@meerwade.example"
_RUBEN = "ruben.achterberg@meerwade.example"
_ILSE = "ilse.vandermolen@meerwade.example"
_JOANA = "joana.figueira@pellgrove.example"
_SAMUEL = "samuel.teixeira@pellgrove.example"
_BOTH_SALARIES = ("salary-bands-2026.xlsx", "pay-scales-2026.xlsx")

DEMO_QUESTIONS: tuple[DemoQuestion, ...] = (
    # The same question in two organisations: two right answers.
    DemoQuestion("meerwade", _NOOR, _PARENTAL, "parental-leave.md", ("parents-and-families.html",)),
    DemoQuestion(
        "pellgrove", _JOANA, _PARENTAL, "parents-and-families.html", ("parental-leave.md",)
    ),
    DemoQuestion(
        "meerwade", _RUBEN, _PURCHASE, "purchasing-and-approvals.docx", ("purchase-approval.pdf",)
    ),
    DemoQuestion(
        "pellgrove", _SAMUEL, _PURCHASE, "purchase-approval.pdf", ("purchasing-and-approvals.docx",)
    ),
    # The narrower agent.
    DemoQuestion(
        "meerwade",
        _NOOR,
        _ALLOWANCE,
        "travel-policy.pdf",
        ("travel-and-expenses.md", "abroad-allowances-2026.csv"),
        agent="travel-desk",
    ),
    DemoQuestion(
        "pellgrove",
        _JOANA,
        _ALLOWANCE,
        "travel-and-expenses.md",
        ("travel-policy.pdf", "foreign-allowances-2026.csv"),
        agent="travel-desk",
    ),
    # The same question in one organisation: a secret of one team.
    DemoQuestion("meerwade", _RUBEN, _SALARY, "salary-bands-2026.xlsx", ("pay-scales-2026.xlsx",)),
    DemoQuestion("meerwade", _NOOR, _SALARY, None, _BOTH_SALARIES),
    # The same person in two organisations.
    DemoQuestion("meerwade", DANA, _SALARY, None, _BOTH_SALARIES),
    DemoQuestion("pellgrove", DANA, _SALARY, "pay-scales-2026.xlsx", ("salary-bands-2026.xlsx",)),
    # One restricted document in a source that everybody may see.
    DemoQuestion(
        "meerwade",
        _ILSE,
        "What price do we offer in Project Heron?",
        "acquisition-plan-project-heron.docx",
    ),
    DemoQuestion(
        "meerwade",
        _NOOR,
        "What price do we offer in Project Heron?",
        None,
        ("acquisition-plan-project-heron.docx",),
    ),
    # A nested team has what its parent was granted; nobody else does.
    DemoQuestion(
        "meerwade",
        _NOOR,
        "How tight do the anchors of the mounting plate have to be?",
        "gauge-installation-checklist.md",
    ),
    DemoQuestion(
        "meerwade",
        _RUBEN,
        "How tight do the anchors of the mounting plate have to be?",
        None,
        ("gauge-installation-checklist.md", "calibration-intervals.xlsx"),
    ),
)
