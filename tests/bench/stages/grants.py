"""What a change of a grant costs while others search and write: milliseconds with the commit, rows,
whether the next query still shows anything of it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import tempfile
import time
from typing import Any

import numpy as np
import psycopg
from django.db import connection, transaction

from accounts.authority import Authority
from accounts.models import Membership, Project, Role, User
from accounts.models import Organization as OrganizationRow
from accounts.permissions import Verb
from accounts.sharing import grant, revoke
from retrieval.models import Document, Source
from tests import factories
from tests.bench import results, rights, statements, truth
from tests.bench.clients import Statement, begin_beside
from tests.bench.server import say
from tests.bench.statements import ROUTER
from tests.bench.timing import Times, execute, timed
from tests.bench.world import DATABASE, Organization, World

READERS = 3
WRITERS = 1
_ROUNDS = int(os.environ.get("BENCH_GRANT_ROUNDS", "60"))


def run(world: World) -> None:
    """Measure alone and under load, and keep."""
    organization = world.organizations["largest"]
    stored = truth.read_stored(organization)
    questions = truth.ask(world, stored, 40, salt=60)
    owner = _owner(organization)
    data = {"alone": _measure(world, organization, stored, owner)}
    jobs = [
        (
            ROUTER,
            statements.near(
                truth.authority_of(user, organization),
                space=organization.space_key,
                vector=question.vector,
            ),
        )
        for question in questions
        for user in organization.callers["10 %"] + organization.callers["100 %"]
    ]
    say(f"the same beside {READERS} readers and {WRITERS} writers")
    context = multiprocessing.get_context("spawn")
    end, counts = context.Event(), context.Array("q", READERS + WRITERS)
    roles = ["read"] * READERS + ["write"] * WRITERS
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        file.write(pickle.dumps({"read": jobs, "write": str(organization.id)}))
        file.flush()
        others = [
            context.Process(
                target=begin_beside, args=(role, file.name, end, counts, number), daemon=True
            )
            for number, role in enumerate(roles)
        ]
        for other in others:
            other.start()
        _wait_for(others, counts)
    try:
        data["under load"] = _measure(world, organization, stored, owner)
    finally:
        end.set()
        for other in others:
            other.join(30)
    data["others"] = {"searches": sum(counts[:READERS]), "documents": sum(counts[READERS:])}
    results.write("grants", world.size, data)


def _wait_for(others: list[Any], counts: Any) -> None:
    """Until each has done something. Raises RuntimeError when one is gone."""
    while not all(counts[:]):
        if not all(other.is_alive() for other in others):
            raise RuntimeError("a reader or a writer ended early")
        time.sleep(0.2)


def _measure(
    world: World, organization: Organization, stored: truth.Stored, owner: Authority
) -> dict[str, Any]:
    """Grants and revocations of a project, a source, a document, by the product's own service."""
    row = OrganizationRow.objects.get(pk=organization.id)
    member = rights.make_members(row, 1)[0]
    reader = truth.authority_of(member.user_id, organization)
    found = {}
    for name, model in (("project", Project), ("source", Source), ("document", Document)):
        found[name] = _changes(world, organization, stored, owner, member.user, reader, model)
    return found


def _changes(
    world: World,
    organization: Organization,
    stored: truth.Stored,
    owner: Authority,
    person: User,
    reader: Authority,
    model: Any,
) -> dict[str, Any]:
    times = {"grant": Times(), "revoke": Times(), "row": Times()}
    stale = unseen = rows = 0
    dice = np.random.default_rng(9)
    every = list(model.objects.filter(organization_id=organization.id).order_by("key")[:300])
    every = [thing for thing in every if np.isin(_documents_of(thing), stored.documents).any()]
    for _ in range(_ROUNDS):
        thing = every[int(dice.integers(0, len(every)))]
        keys = _documents_of(thing)
        vector = stored.vectors[np.flatnonzero(np.isin(stored.documents, keys))[0]]
        asked: Statement = (
            ROUTER,
            statements.near(reader, space=organization.space_key, vector=vector),
        )
        for name, act in (("grant", grant), ("revoke", revoke)):
            with world.server.connect(DATABASE) as counting:
                before = _written(counting, person.pk)
                spent, _ = timed(lambda: _commit(act, owner, person, thing))  # noqa: B023
                times[name].values.append(spent)
                seen = {row[0] for row in execute(asked)}
                rows = max(rows, abs(_written(counting, person.pk) - before))
            if name == "grant":
                unseen += not seen
            else:
                stale += len(seen)
        times["row"].values.append(_bare_change(person, thing))
    return {
        **{name: kept.as_dict() for name, kept in times.items()},
        "rows": rows,
        "stale": stale,
        "unseen": unseen,
        "rounds": _ROUNDS,
    }


def _commit(act: Any, owner: Authority, person: User, thing: Any) -> None:
    with transaction.atomic():
        act(owner, principal=person, verb=Verb.VIEW, obj=thing)


def _bare_change(person: User, thing: Any) -> float:
    """One row deleted and committed, without the service and its audit around it."""
    factories.grant(person, Verb.VIEW, thing)
    table = rights.TABLES[type(thing), True]._meta.db_table
    delete = f"DELETE FROM {table} WHERE user_id = %s AND content_object_id = %s"
    spent, _ = timed(lambda: _execute(delete, [person.pk, thing.key]))
    return spent


def _execute(statement: str, parameters: list[int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def _written(counting: psycopg.Connection, user_id: int) -> int:
    """Grant rows that the person has."""
    tables = (rights.TABLES[model, True]._meta.db_table for model in (Project, Source, Document))
    total = 0
    for table in tables:
        row = counting.execute(
            f"SELECT count(*) FROM {table} WHERE user_id = %s".encode(), [user_id]
        ).fetchone()
        total += row[0] if row else 0
    return total


def _documents_of(thing: Any) -> np.ndarray:
    if isinstance(thing, Document):
        return np.array([thing.key])
    sources = [thing] if isinstance(thing, Source) else list(thing.sources.all())
    keys = Document.objects.filter(source__in=sources, acl_state=Document.AclState.INHERIT)
    return np.array(list(keys.values_list("key", flat=True)))


def _owner(organization: Organization) -> Authority:
    row = OrganizationRow.objects.get(pk=organization.id)
    owner = Membership.objects.filter(organization=row, role=Role.OWNER).first()
    return factories.authority_of(owner or factories.make_member(row, role=Role.OWNER))
