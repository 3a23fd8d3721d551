"""Walking the demo: every question, asked of the running product as its members would ask it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kaizen.demo import load
from kaizen.demo.browser import Browser, Refused
from kaizen.demo.shape import DemoQuestion
from kaizen.demo.story import DEMO_QUESTIONS
from kaizen.demo.walk import check, walk
from kaizen.embedded.ports import choose_port
from tests import servers
from tests.factories import make_organization
from tests.stack import RUNTIME_PYTHON, Stack

QUESTION = DemoQuestion("meerwade", "a@b.example", "?", "right.md", ("secret.md",))


@pytest.mark.parametrize(
    ("cited", "faults"),
    [
        (["right.md", "other.md"], []),
        (["other.md"], ["right.md should be cited; cited was other.md"]),
        ([], ["right.md should be cited; cited was nothing"]),
        (["right.md", "secret.md"], ["secret.md must not be cited"]),
    ],
)
def test_an_answer_is_measured_by_what_it_cites(cited: list[str], faults: list[str]) -> None:
    assert check(QUESTION, cited) == faults


def demo(*words: str) -> subprocess.CompletedProcess[str]:
    """`manage.py demo` as typed in a terminal."""
    return subprocess.run(
        [sys.executable, "manage.py", "demo", *words],
        cwd=servers.ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_without_a_running_kaizen_it_says_so_in_one_sentence() -> None:
    address = f"http://127.0.0.1:{choose_port(None)}"
    ended = demo("--address", address)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"CommandError: Kaizen isn't running at {address}. Start it with make up in another "
        "terminal, wait for its address, and run make demo again.\n"
    )


def test_an_address_of_another_kind_is_refused() -> None:
    with pytest.raises(Refused, match="begins with http"):
        Browser("file:///etc")


@pytest.mark.skipif(not RUNTIME_PYTHON.exists(), reason="the runtime's environment isn't made")
def test_the_walk_gives_every_member_their_own_answer(committed_db: str) -> None:
    with Stack(committed_db) as stack:
        make_organization("ours")
        stack.start("web", "worker", "runtime")
        with pytest.raises(Refused, match="the demo isn't loaded there"):
            walk(stack.address, lambda line: None)
        load.load(lambda line: None)
        said: list[str] = []
        broken = walk(stack.address, said.append)
        told = "\n".join(said)
        assert broken == 0, told
        for question in DEMO_QUESTIONS:
            assert f"“{question.question}”" in told
            if question.expected:
                assert f"] {question.expected}" in told
        assert said[-1] == (
            f"All {len(DEMO_QUESTIONS)} answers cite what they should and nothing they must not."
        )
