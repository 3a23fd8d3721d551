"""Every named clause of the relation, taken out in turn, fails a named test; and every condition in
its functions is such a clause.

The function is replaced by its owner in a database of this module's own, and put back.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from pytest_django.plugin import DjangoDbBlocker

from kaizen.embedded.environment import OWNER_ROLE
from tests import servers
from tests.conftest import connected_to
from tests.retrieval.clauses import ASIDE, CLAUSES, FUNCTIONS, TEXTS, Clause
from tests.retrieval.conftest import make_library
from tests.retrieval.probes import unkept
from tests.retrieval.test_relation import make_document

FAILURES = (AssertionError, pytest.fail.Exception)
_WORD = re.compile(r"\b(WHERE|ON|AND|OR|NOT)\b")
_ENDS = re.compile(
    r"\b(WHERE|ON|AND|OR|JOIN|LEFT|CROSS|UNION|GROUP|ORDER|LIMIT|SELECT|FROM|RETURNING|THEN)\b"
)


@pytest.fixture(scope="module")
def database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """A database whose functions may be changed; the tests reach it as the app role."""
    name = servers.create_database()
    with connected_to(name, django_db_blocker):
        yield name
    servers.drop_database(name)


@pytest.fixture(scope="module")
def passed() -> set[str]:
    """The tests that were seen to pass while nothing was taken out."""
    return set()


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.name)
def test_a_clause_taken_out_fails_its_test(
    clause: Clause, database: str, passed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = f"{clause.test.__name__} {sorted(clause.given.items())}"
    if named not in passed:
        _run(clause)
        passed.add(named)
    with _taken_out(clause, database, monkeypatch), pytest.raises(FAILURES):
        _run(clause)


def test_every_condition_of_the_functions_is_a_named_clause(database: str) -> None:
    unnamed = {
        function: left
        for function in FUNCTIONS
        if (left := _unnamed(_body(_definition(database, function)), function))
    }
    assert unnamed == {}


def test_every_condition_of_the_grants_sql_is_a_named_clause() -> None:
    for where in TEXTS:
        assert _unnamed(getattr(*_attribute(where)), where) == []


def test_every_place_of_a_text_is_named(database: str) -> None:
    """What stands twice is a clause at both places, or stands aside at the other."""
    for function in FUNCTIONS:
        body = _body(_definition(database, function))
        for text in {clause.text for clause in CLAUSES if clause.where == function}:
            at = (function, text)
            clauses = [clause.nth for clause in CLAUSES if (clause.where, clause.text) == at]
            aside = [item.nth or () for item in ASIDE if (item.where, item.text) == at]
            named = {place for places in (*clauses, *aside) for place in places}
            there = set(range(len(_places(body, text))))
            if text == "d.acl_state = 'inherit'":  # The first place is a column of the answer.
                there.discard(0)
            assert named == there, at


@pytest.mark.parametrize(
    "more", ["AND s.extra = 1", "OR s.extra", "AND NOT s.extra", "AND NOT EXISTS (SELECT 1)"]
)
def test_a_new_condition_is_noticed(database: str, more: str) -> None:
    body = _body(_definition(database, "retrieval_visible_sources")).rstrip()
    assert _unnamed(body, "retrieval_visible_sources") == []
    assert _unnamed(f"{body} {more}", "retrieval_visible_sources") == [
        more.removeprefix("AND ").removeprefix("OR ").removeprefix("NOT ")
    ]


def test_what_stands_aside_is_there(database: str) -> None:
    for item in ASIDE:
        assert _places(_body(_definition(database, item.where)), item.text), item


def test_every_function_over_grants_is_listed(database: str) -> None:
    """A new function that reads grants, or asks the relation, can't stay outside of this test."""
    with psycopg.connect(servers.database_url(database, role=OWNER_ROLE)) as connection:
        rows = connection.execute(
            "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
            "WHERE n.nspname = 'public' AND p.prosrc ~ "
            "'(usergrant|teamgrant|accounts_principals|visible_sources|granted_documents"
            "|matching_documents|accounts_teammembership)'"
        ).fetchall()
    found = {name for (name,) in rows}
    assert found - {*FUNCTIONS} == set()


def test_clauses_have_names_of_their_own() -> None:
    names = [clause.name for clause in CLAUSES]
    assert len(names) == len(set(names))


# --- running


def _run(clause: Clause) -> None:
    """The clause's test, with what it asks for, in a world that is undone."""
    with unkept():
        library = make_library()
        arguments: dict[str, Any] = {}
        for name in inspect.signature(clause.test).parameters:
            if name == "library":
                arguments[name] = library
            elif name == "page":
                arguments[name] = make_document(library.source, "Page")
            else:
                arguments[name] = clause.given[name]
        clause.test(**arguments)


@contextmanager
def _taken_out(clause: Clause, database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ExitStack() as stack:
        if clause.where in FUNCTIONS:
            stack.enter_context(_function_without(clause, database))
        else:
            patched = stack.enter_context(monkeypatch.context())
            if clause.where in TEXTS:
                module, name = _attribute(clause.where)
                patched.setattr(module, name, _without(getattr(module, name), clause))
            else:
                function, code = _code_without(clause)
                patched.setattr(function, "__code__", code)
        yield


@contextmanager
def _function_without(clause: Clause, database: str) -> Iterator[None]:
    whole = _definition(database, clause.where)
    _define(database, _without(whole, clause))
    try:
        yield
    finally:
        _define(database, whole)


def _code_without(clause: Clause) -> tuple[Callable[..., Any], Any]:
    """A function of Python and its code without the clause: callers keep the same function."""
    module, name = _attribute(clause.where)
    source = textwrap.dedent(inspect.getsource(getattr(module, name)))
    scope: dict[str, Any] = dict(vars(module))
    exec(compile(_without(source, clause), f"<without {clause.name}>", "exec"), scope)
    return getattr(module, name), scope[name].__code__


def _attribute(where: str) -> tuple[Any, str]:
    module, _, name = where.partition(":")
    return importlib.import_module(module), name


def _definition(database: str, function: str) -> str:
    with psycopg.connect(servers.database_url(database, role=OWNER_ROLE)) as connection:
        rows = connection.execute(
            "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = %s", [function]
        ).fetchall()
    assert len(rows) == 1, function
    return str(rows[0][0])


def _define(database: str, definition: str) -> None:
    url = servers.database_url(database, role=OWNER_ROLE)
    with psycopg.connect(url, autocommit=True) as connection:
        # Functions with SET of their parameters need the extensions loaded in this session.
        connection.execute("SELECT '[1]'::vector, similarity('a', 'b')")
        connection.execute(definition)  # type: ignore[call-overload]


# --- reading


def _body(definition: str) -> str:
    """What stands between the function's quotes."""
    return definition[definition.index("$function$") : definition.rindex("$function$")]


def _unnamed(body: str, where: str) -> list[str]:
    """The conditions that are no clause and don't stand aside."""
    texts = [item.text for item in (*CLAUSES, *ASIDE) if item.where == where]
    named = [span for text in texts for span in _places(body, text)]
    return [
        body[start:end]
        for start, end in _conditions(body)
        if not any(first <= start and end <= last for first, last in named)
    ]


def _places(text: str, clause: str) -> list[tuple[int, int]]:
    """Where the clause stands, however it is broken into lines."""
    words = [re.escape(word) for word in clause.split()]
    pattern = r"(?<![\w.])" + r"\s*".join(words) + r"(?!\w)"
    return [match.span() for match in re.finditer(pattern, text)]


def _without(text: str, clause: Clause) -> str:
    places = _places(text, clause.text)
    assert len(places) > max(clause.nth), f"{clause.name}: not there"
    for number in sorted(clause.nth, reverse=True):
        start, end = places[number]
        text = text[:start] + clause.instead + text[end:]
    return text


def _conditions(body: str) -> Iterator[tuple[int, int]]:
    """The spans of the single conditions: what follows WHERE, ON, AND, OR or NOT, up to the end."""
    for word in _WORD.finditer(body):
        start = word.end()
        while body[start] in " \n(":
            start += 1
        if re.match(r"(NOT|SELECT|NULL|IN)\b", body[start:]):
            continue
        end = _end(body, start)
        yield start, end


def _end(body: str, start: int) -> int:
    """Where a condition ends: at the next word of the statement, or where its brackets close."""
    depth = 0
    for at in range(start, len(body)):
        if body[at] == "(":
            depth += 1
        elif body[at] == ")":
            depth -= 1
            if depth < 0:
                return len(body[:at].rstrip())
        elif depth == 0 and (body[at] == ";" or _ENDS.match(body, at)):
            return len(body[:at].rstrip())
    return len(body.rstrip())
