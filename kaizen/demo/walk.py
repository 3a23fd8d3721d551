"""Asks the demo's questions of the running system over HTTP, as its members would, and checks what
came back.

Promises: knows nothing but what the server answers; each answer's sources are compared with the
story's promise. Standard library only, no database and no Django.
"""

from __future__ import annotations

import re
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kaizen.demo.browser import Browser, Refused
from kaizen.demo.shape import DemoOrganization, DemoQuestion
from kaizen.demo.story import DEMO_PASSWORD, DEMO_QUESTIONS, ORGANIZATIONS

ANSWER_SECONDS = 120.0
LONG_POLL_SECONDS = 20
WIDTH = 96
Tell = Callable[[str], None]
_ONLY_MARK = re.compile(r"[—\s]*\[\d+\]\s*")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a member got: the text with its sources as [n], and what these are."""

    text: str
    sources: tuple[tuple[int, str, str], ...]  # number, file name, where in it

    @property
    def files(self) -> list[str]:
        """The names of the cited files, each once."""
        return list(dict.fromkeys(name for _, name, _ in self.sources))


def walk(address: str, tell: Tell) -> int:
    """Ask all questions and tell what each member got. Returns how many answers broke a promise.

    Raises Refused with a sentence when the system can't be reached or used.
    """
    browsers: dict[str, Browser] = {}
    failures: list[str] = []
    for number, question in enumerate(DEMO_QUESTIONS, start=1):
        story = next(one for one in ORGANIZATIONS if one.slug == question.organization)
        if question.member not in browsers:
            browsers[question.member] = _sign_in(address, question.member)
        _introduce(number, question, story, tell)
        answer = _ask(browsers[question.member], question, story, tell)
        _show(answer, tell)
        faults = check(question, answer.files)
        failures += [f"{number}. {_member(question, story)}: {fault}" for fault in faults]
    _summarize(failures, tell)
    return len(failures)


def check(question: DemoQuestion, cited: list[str]) -> list[str]:
    """Which promises about `question` these cited files break, as sentences. Pure."""
    faults = []
    if question.expected is not None and question.expected not in cited:
        what = ", ".join(cited) or "nothing"
        faults.append(f"{question.expected} should be cited; cited was {what}")
    faults += [f"{name} must not be cited" for name in question.must_not_cite if name in cited]
    return faults


def _sign_in(address: str, email: str) -> Browser:
    browser = Browser(address)
    if not browser.sign_in(email, DEMO_PASSWORD):
        raise Refused(
            f"{email} can't sign in at {address}: the demo isn't loaded there, or its password was "
            "changed. To load it: .venv/bin/python manage.py demo --load"
        )
    return browser


def _ask(browser: Browser, question: DemoQuestion, story: DemoOrganization, tell: Tell) -> Answer:
    api = f"/o/{story.slug}/api/v1"
    agent = next(agent for agent in story.agents if agent.slug == question.agent)
    found = [row for row in browser.get(f"{api}/agents/")["results"] if row["name"] == agent.name]
    if not found:
        raise Refused(f"{question.member} may not use the agent {agent.name} at {story.name}.")
    turn = browser.post(
        f"{api}/turns/",
        {"agent": found[0]["id"], "text": question.question},
        headers={"Idempotency-Key": uuid.uuid4().hex},
    )
    talk = f"{api}/conversations/{turn['conversation']}"
    for event in _follow(browser, talk, run=turn["run"]):
        if event["kind"] == "tool_intent" and event["data"].get("activity"):
            tell(f"   … {event['data']['activity']}")
        if event["kind"] == "run_finished" and event["data"]["state"] != "succeeded":
            why = event["data"].get("error_message") or event["data"]["state"]
            raise Refused(f"The answer broke off: {why}")
    answers = [
        message for message in browser.get(f"{talk}/")["messages"] if message["role"] != "user"
    ]
    if not answers:
        return Answer("", ())
    sources = tuple(
        (source["number"], source["file_name"], _place(source)) for source in answers[-1]["sources"]
    )
    return Answer(answers[-1]["text"], sources)


def _follow(browser: Browser, talk: str, *, run: str) -> Iterator[dict[str, Any]]:
    """The conversation's events up to the end of `run`. Raises Refused when it takes too long."""
    after, ends_at = 0, time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < ends_at:
        page = browser.get(f"{talk}/events/?after={after}&wait={LONG_POLL_SECONDS}")
        for event in page["events"]:
            after = event["seq"]
            yield event
            if event["kind"] == "run_finished" and event["run"] == run:
                return
    raise Refused(
        f"No answer came within {ANSWER_SECONDS:.0f} s. Is the agent runtime running? "
        "The lines of make up show it."
    )


def _place(source: dict[str, Any]) -> str:
    parts = [source.get("heading") or "", f"page {source['page']}" if source.get("page") else ""]
    return ", ".join(part for part in parts if part)


def _member(question: DemoQuestion, story: DemoOrganization) -> str:
    name = next(member.name for member in story.members if member.email == question.member)
    return f"{name} at {story.name}"


def _introduce(number: int, question: DemoQuestion, story: DemoOrganization, tell: Tell) -> None:
    tell("")
    tell(f"{number}. {_member(question, story)} asks the {question.agent.replace('-', ' ')}:")
    tell(f"   “{question.question}”")


def _show(answer: Answer, tell: Tell) -> None:
    for line in answer.text.splitlines():
        # A line that is only a mark repeats the one behind its quotation.
        if not _ONLY_MARK.fullmatch(line):
            for piece in textwrap.wrap(line, WIDTH):
                tell(f"   {piece}")
    for number, name, place in answer.sources:
        tell(f"   [{number}] {name}{f' ({place})' if place else ''}")
    if not answer.sources:
        tell("   No sources cited.")


def _summarize(failures: list[str], tell: Tell) -> None:
    tell("")
    if not failures:
        tell(f"All {len(DEMO_QUESTIONS)} answers cite what they should and nothing they must not.")
        return
    tell("These answers break what the demo promises:")
    for failure in failures:
        tell(f"   {failure}")
