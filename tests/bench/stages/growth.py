"""How time grows: with everything else there is, at a fixed visible set, between this world and one
of a tenth; with a caller's grants, from 10 to 10,000; with the teams they are in.

The two worlds' servers run together and are asked in turn.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import psycopg
from django.db import connections

from accounts.authority import Authority
from accounts.models import Membership
from accounts.models import Organization as OrganizationRow
from retrieval.models import Document, Source
from tests.bench import results, rights, scene, statements, truth, world
from tests.bench.clients import Statement
from tests.bench.server import ROOT, BenchServer, held, say
from tests.bench.statements import LEXICAL, ROUTER
from tests.bench.timing import Times, execute, interleave, orders, ratio, timed
from tests.bench.world import DATABASE, Organization, World

# Visible passages that stay the same while the world grows; one below, one above exact distances.
FIXED = (2_000, 20_000)
GRANTS = (10, 100, 1_000, 10_000)
TEAMS = (1, 10, 100, 500)
_QUESTIONS = 40


def run(opened: World) -> None:
    """Measure and keep."""
    organization = opened.organizations["largest"]
    stored = truth.read_stored(organization)
    questions = truth.ask(opened, stored, _QUESTIONS, salt=50)
    data = {
        "grants": measure_grants(organization, questions),
        "teams": measure_teams(organization, questions),
        "worlds": measure_worlds(opened, questions),
    }
    results.write("growth", opened.size, data)


def measure_grants(
    organization: Organization, questions: Sequence[truth.Question]
) -> dict[str, Any]:
    """The same ten sources by ten grants, and by thousands more on their documents."""
    sources = _sources(organization, 10)
    documents = list(
        Document.objects.filter(source__in=sources).order_by("key").values_list("key", flat=True)
    )
    callers = {}
    for count in GRANTS:
        member = _member(organization)
        grants = rights.Grants(member.organization)
        keys = [source.key for source in sources][:count]
        grants.give(member.user_id, is_user=True, model=Source, keys=keys)
        left, principal, is_user = count - len(keys), member.user_id, True
        while left > 0:
            part = documents[:left]
            grants.give(principal, is_user=is_user, model=Document, keys=part)
            left -= len(part)
            principal, is_user = rights.make_team(member.organization, member).pk, False
        callers[str(grants.write())] = truth.authority_of(member.user_id, organization)
    return _compare(organization, callers, questions)


def measure_teams(
    organization: Organization, questions: Sequence[truth.Question]
) -> dict[str, Any]:
    """The same ten sources through one team and through hundreds."""
    sources = _sources(organization, 10)
    callers = {}
    for count in TEAMS:
        member = _member(organization)
        grants = rights.Grants(member.organization)
        teams = [rights.make_team(member.organization, member) for _ in range(count)]
        for at in range(max(count, len(sources))):
            keys = [sources[at % len(sources)].key]
            grants.give(teams[at % count].pk, is_user=False, model=Source, keys=keys)
        grants.write()
        callers[str(count)] = truth.authority_of(member.user_id, organization)
    return _compare(organization, callers, questions)


def _compare(
    organization: Organization,
    callers: dict[str, Authority],
    questions: Sequence[truth.Question],
) -> dict[str, Any]:
    """Each branch and the whole statement for each caller, all in turn."""
    with connections["default"].cursor() as cursor:
        cursor.execute("ANALYZE accounts_teammembership, retrieval_documentusergrant")
    names = list(callers)
    order = orders(names)
    times = {kind: {name: Times() for name in names} for kind in ("vector", "lexical", "hybrid")}
    for at, question in enumerate(questions):
        jobs = {
            name: _jobs(organization, authority, question) for name, authority in callers.items()
        }
        for kind, kept in times.items():
            contestants = {name: partial(execute, jobs[name][kind]) for name in names}
            for name, (spent, _) in interleave(contestants, order()).items():
                if at >= 3:
                    kept[name].values.append(spent)
    least, most = names[0], names[-1]
    growth = math.log(float(most) / float(least))
    return {
        kind: {name: kept[name].as_dict() for name in names}
        | {
            "ratio": round(ratio(kept[most].p50, kept[least].p50), 3),
            "exponent": round(math.log(ratio(kept[most].p50, kept[least].p50)) / growth, 3),
        }
        for kind, kept in times.items()
    }


def _jobs(
    organization: Organization, authority: Authority, question: truth.Question
) -> dict[str, Statement]:
    given = statements.near(authority, space=organization.space_key, vector=question.vector)
    terms = scene.fits_words(organization, question.words)
    return {
        "vector": (ROUTER, given),
        "lexical": (LEXICAL, {**statements.who(authority), "terms": terms, "limit": 60}),
        "hybrid": statements.capture(authority, words=question.text, vector=question.vector),
    }


def measure_worlds(opened: World, questions: Sequence[truth.Question]) -> dict[str, Any]:
    """The same visible set in this world and in one of a tenth of its size."""
    smaller = opened.size // 10
    folder = world.folder_of(smaller)
    if not (folder / "world.json").exists():
        say(f"building the world of {smaller:,} passages to compare with")
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench", "world"],
            cwd=ROOT,
            env={**os.environ, "BENCH_SIZE": str(smaller)},
            check=False,
        )
        if done.returncode:
            return {}
    here = _fixed_jobs(opened.organizations["largest"], questions)
    with held(folder):
        server = BenchServer(folder)
        server.start()
        try:
            there = _in_other(server, folder, questions)
            return _compare_worlds(opened.server, server, here, there, smaller, opened.size)
        finally:
            server.stop()


Jobs = dict[int, dict[str, list[Statement]]]


def _fixed_jobs(organization: Organization, questions: Sequence[truth.Question]) -> Jobs:
    """For each size of a visible set, what a caller who sees just that asks."""
    jobs: Jobs = {}
    for visible in FIXED:
        sources = _sources(organization, 10_000)
        chosen, total = [], 0
        for source in sources:
            if total + source.passage_count <= visible * 1.05:
                chosen.append(source)
                total += source.passage_count
        if total < 0.9 * visible:
            continue
        member = _member(organization)
        grants = rights.Grants(member.organization)
        keys = [source.key for source in chosen]
        grants.give(member.user_id, is_user=True, model=Source, keys=keys)
        grants.write()
        authority = truth.authority_of(member.user_id, organization)
        every = [_jobs(organization, authority, question) for question in questions]
        jobs[visible] = {kind: [job[kind] for job in every] for kind in every[0]}
    return jobs


def _in_other(server: BenchServer, folder: Any, questions: Sequence[truth.Question]) -> Jobs:
    """The same in the other world: Django points there meanwhile."""
    from accounts.permissions import permission_id

    statements.prepare(server, DATABASE)
    default = connections["default"]
    parts = psycopg.conninfo.conninfo_to_dict(server.url(DATABASE))
    before = {name: default.settings_dict[name] for name in ("PORT", "PASSWORD")}
    default.close()
    default.settings_dict |= {"PORT": parts["port"], "PASSWORD": parts["password"]}
    permission_id.cache_clear()
    try:
        other = World(0, folder, server, world._read(folder))
        scene.warm(other)
        return _fixed_jobs(other.organizations["largest"], questions)
    finally:
        default.close()
        default.settings_dict |= before
        permission_id.cache_clear()


def _compare_worlds(
    here: BenchServer, there: BenchServer, ours: Jobs, theirs: Jobs, smaller: int, size: int
) -> dict[str, Any]:
    found: dict[str, Any] = {"smaller": smaller}
    with (
        psycopg.connect(
            here.url(DATABASE), autocommit=True, cursor_factory=psycopg.ClientCursor
        ) as big,
        psycopg.connect(
            there.url(DATABASE), autocommit=True, cursor_factory=psycopg.ClientCursor
        ) as small,
    ):
        for visible in sorted(ours.keys() & theirs.keys()):
            cell: dict[str, Any] = {}
            for kind in ours[visible]:
                times = {"big": Times(), "small": Times()}
                pairs = zip(ours[visible][kind], theirs[visible][kind], strict=True)
                for at, (one, other) in enumerate(pairs):
                    for name, act in _both(big, small, one, other, flip=at % 2 == 1):
                        spent, _ = timed(act)
                        if at >= 3:
                            times[name].values.append(spent)
                slower = ratio(times["big"].p50, times["small"].p50)
                cell[kind] = {name: kept.as_dict() for name, kept in times.items()} | {
                    "ratio": round(slower, 3),
                    "exponent": round(math.log(slower) / math.log(size / smaller), 3),
                }
            found[str(visible)] = cell
    return found


def _both(
    big: psycopg.Connection,
    small: psycopg.Connection,
    one: Statement,
    other: Statement,
    *,
    flip: bool,
) -> list[tuple[str, Callable[[], Any]]]:
    acts: list[tuple[str, Callable[[], Any]]] = [
        ("big", lambda: big.execute(*one).fetchall()),
        ("small", lambda: small.execute(*other).fetchall()),
    ]
    return acts[::-1] if flip else acts


def _sources(organization: Organization, count: int) -> list[Source]:
    dice = np.random.default_rng(7)
    full = Source.objects.filter(organization_id=organization.id, passage_count__gt=0)
    every = list(full.order_by("key"))
    return [every[at] for at in dice.permutation(len(every)).tolist()][:count]


def _member(organization: Organization) -> Membership:
    row = OrganizationRow.objects.get(pk=organization.id)
    return rights.make_members(row, 1)[0]
