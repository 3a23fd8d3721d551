"""Ten questions over the shared handbook, each with the page that answers it.

Written by reading the pages, before the first search was run, and not changed to please the search.
`no_shared_stem` marks a question that shares no word stem with the title of its page, so that
its title alone can't lead there; `shared_stems` checks the claim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HandbookQuestion:
    """A question, its page (path below the handbook's root) and words that stand in the answer."""

    question: str
    page: str
    answer: str
    no_shared_stem: bool = False


HANDBOOK_QUESTIONS: tuple[HandbookQuestion, ...] = (
    HandbookQuestion(
        question="The badge reader says my certificate is not trusted: what can I clean it with?",
        page="getting-started/piv.md",
        answer="pencil eraser",
        no_shared_stem=True,
    ),
    HandbookQuestion(
        question="Must I notify PeopleOps if I relocate for less than 120 days?",
        page="travel-and-leave/travel-and-leave-policies/moving.md",
        answer="you do not need to notify PeopleOps",
        no_shared_stem=True,
    ),
    HandbookQuestion(
        question="After how many days are inactive whiteboard members converted to guests?",
        page="tools/mural.md",
        answer="90 days should be converted to guests",
        no_shared_stem=True,
    ),
    HandbookQuestion(
        question="On the SAAR form, should I check civilian or contractor?",
        page="18f/how-18f-works/accessing-dod-systems.md",
        answer="Check **civilian**, not **contractor**",
        no_shared_stem=True,
    ),
    HandbookQuestion(
        question="On which floor of One World Trade Center is the lactation room?",
        page="general-information-and-resources/new-york-city.md",
        answer="54th floor",
        no_shared_stem=True,
    ),
    HandbookQuestion(
        question="How much may a sandbox user spend per month without explicit permission?",
        page="launching-software/infrastructure.md",
        answer="without explicit permission from Infrastructure",
        no_shared_stem=True,
    ),
    HandbookQuestion(
        question="How many days do I have to complete the eQIP once notified?",
        page="general-information-and-resources/business-and-ops-policies/top-secret.md",
        answer="7 days to complete the eQIP",
        no_shared_stem=True,
    ),
    HandbookQuestion(
        question="Within how many days after a harassment incident must I report it to GSA?",
        page="about-us/code-of-conduct.md",
        answer="45-day",
        no_shared_stem=True,
    ),
    HandbookQuestion(
        question="How many months before an employee's term ends does PeopleOps reach out?",
        page="hiring-staying-or-changing-jobs/term-extensions.md",
        answer="6-7 months before an employee's term ends",
    ),
    HandbookQuestion(
        question="How long before a management review must its documents reach all reviewers?",
        page="office-of-acquisition/management-reviews-of-procurement-actions.md",
        answer="5 business days prior",
    ),
)

_WORD = re.compile(r"[a-z0-9]+")
_TITLE = re.compile(r"^title:\s*(.+(?:\n[ \t]+.+)*)", re.MULTILINE)
_ENDINGS = (
    "fulness", "ement", "ation", "ment", "ness", "ions", "ance", "ence", "able", "ible", "less",
    "ing", "ied", "ies", "ion", "ive", "ity", "ful", "ers", "ors", "ous", "ate", "ed", "er", "or",
    "es", "ly", "al", "s", "e", "y", "i",
)  # fmt: skip
_SHORTEST_STEM = 3


def stem(word: str) -> str:
    """A coarse English stem: it cuts more than Snowball does, so it errs towards "the same"."""
    ending: str | None = ""
    while ending is not None:
        word = word.removesuffix(ending)
        room = len(word) - _SHORTEST_STEM
        ending = next((e for e in _ENDINGS if word.endswith(e) and len(e) <= room), None)
    return word[:-1] if len(word) > _SHORTEST_STEM and word[-1] == word[-2] else word


def stems(text: str) -> set[str]:
    """The stems of all words of a text, stop words included."""
    return {stem(word) for word in _WORD.findall(text.lower())}


def title_of(page: str) -> str:
    """The title in the front matter of a page's text; empty without one."""
    found = _TITLE.search(page.split("\n---", 1)[0])
    return " ".join(found.group(1).split()).strip("\"'") if found else ""


def shared_stems(question: HandbookQuestion, *, handbook: Path) -> set[str]:
    """The stems that a question has in common with the title of its page in the handbook."""
    page = (handbook / question.page).read_text(encoding="utf-8")
    title = title_of(page)
    if not title:
        raise ValueError(f"{question.page} has no title")
    return stems(question.question) & stems(title)
