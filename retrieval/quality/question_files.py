"""Question sets as files: CSV or JSON in, CSV or JSON out.

A document is named by its id, its id at its source, or its path; where several are called the same,
with its source before it: "Handbook :: travel.md". Promises: what goes out comes in again as it
was; every mistake is told with its line, and a file with a mistake changes nothing.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Q

from accounts.authority import Authority
from kaizen.kernel.errors import KaizenError
from kaizen.kernel.text import make_storable
from retrieval.models import Document, Question, QuestionDocument, QuestionSet
from retrieval.quality.questions import MOST_DOCUMENTS, MOST_SEARCHES, Wanted, get_set
from retrieval.query import parse_query

MOST_BYTES = 2 * 1024 * 1024
MOST_PROBLEMS = 50
COLUMNS = ("question", "expected", "forbidden")
BETWEEN = " :: "
# Spreadsheets take a cell that begins like this for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Unreadable(Exception):
    """A file that can't be taken over; `problems` says why, line by line, 50 of them at most."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems[:MOST_PROBLEMS])


@dataclass(slots=True)
class _Entry:
    """One question as the file has it. `place` names the line or entry it began on."""

    place: str
    text: str
    expected: list[str] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)


def read_file(authority: Authority, data: bytes) -> list[Wanted]:
    """The questions of a file with the documents they name. Raises Unreadable.

    A JSON file begins with a bracket or a brace; anything else is CSV.
    """
    if len(data) > MOST_BYTES:
        raise Unreadable([f"The file is larger than {MOST_BYTES // 2**20} MiB."])
    try:
        text = make_storable(data.decode("utf-8-sig")).text
    except UnicodeDecodeError:
        raise Unreadable(["The file isn't UTF-8 text."]) from None
    is_json = text.lstrip()[:1] in ("[", "{")
    problems: list[str] = []
    entries = list(_of_json(text, problems) if is_json else _of_csv(text, problems))
    if not entries and not problems:
        problems.append("The file holds no question.")
    if len(entries) > MOST_SEARCHES:
        problems.append(f"The file holds more than {MOST_SEARCHES:,} questions.")
    _check_texts(entries, problems)
    if problems:
        raise Unreadable(problems)
    wanted = _look_up(authority, entries, problems)
    if problems:
        raise Unreadable(problems)
    return wanted


def write_csv(authority: Authority, *, question_set_id: UUID) -> str:
    """The set's questions as CSV, several documents of a question on lines of their own in the
    cell. Raises Denied and Missing.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for entry in _list_entries(get_set(authority, question_set_id)):
        cells = (entry.text, "\n".join(entry.expected), "\n".join(entry.forbidden))
        writer.writerow([f"'{cell}" if _is_formula(cell) else cell for cell in cells])
    return out.getvalue()


def write_json(authority: Authority, *, question_set_id: UUID) -> str:
    """The set's questions as JSON. Raises Denied and Missing."""
    entries = _list_entries(get_set(authority, question_set_id))
    questions = [
        {"question": one.text, "expected": one.expected, "forbidden": one.forbidden}
        for one in entries
    ]
    return json.dumps({"questions": questions}, ensure_ascii=False, indent=2)


# --- reading


def _of_csv(text: str, problems: list[str]) -> Iterator[_Entry]:
    """Questions in their order; rows with the same question are one."""
    head = text.lstrip("\r\n").partition("\n")[0]
    delimiter = ";" if head.count(";") > head.count(",") else ","
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    entries: dict[str, _Entry] = {}
    names: list[str] | None = None
    began = 1
    try:
        for row in reader:
            place, began = f"Line {began}", reader.line_num + 1
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if names is None:
                names = [cell.lower() for cell in cells]
                if not _is_head(names):
                    problems.append(
                        f"{place}: the first line must name the columns: question, expected and, "
                        "if you like, forbidden."
                    )
                    return
                continue
            if len(cells) > len(names):
                problems.append(f"{place}: more cells than the first line has columns.")
                continue
            values = {name: _plain(cell) for name, cell in zip(names, cells, strict=False)}
            entry = entries.setdefault(
                values["question"], _Entry(place=place, text=values["question"])
            )
            entry.expected += _lines(values.get("expected", ""))
            entry.forbidden += _lines(values.get("forbidden", ""))
    except csv.Error as error:
        problems.append(f"Line {reader.line_num}: this isn't CSV: {error}.")
    yield from entries.values()


def _is_head(names: Sequence[str]) -> bool:
    return "question" in names and set(names) <= set(COLUMNS) and len(set(names)) == len(names)


def _plain(cell: str) -> str:
    """A cell without the apostrophe that keeps a spreadsheet from calculating it."""
    return cell[1:] if cell[:1] == "'" and _is_formula(cell) else cell


def _is_formula(cell: str) -> bool:
    """Whether a spreadsheet might calculate the cell, were it not for an apostrophe."""
    return cell.lstrip("'").startswith(_FORMULA)


def _lines(cell: str) -> list[str]:
    return [line.strip() for line in cell.splitlines() if line.strip()]


def _of_json(text: str, problems: list[str]) -> Iterator[_Entry]:
    """A list of questions, or an object with one under `questions`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f"Line {error.lineno}: " if isinstance(error, json.JSONDecodeError) else ""
        problems.append(f"{line}this isn't JSON.")
        return
    if isinstance(found, dict):
        found = found.get("questions")
    if not isinstance(found, list):
        problems.append('The file must hold a list, or an object with a list under "questions".')
        return
    entries: dict[str, _Entry] = {}
    for number, value in enumerate(found, start=1):
        place = f"Entry {number}"
        if not _is_entry(value):
            problems.append(
                f'{place}: this must be an object with a text under "question" and, if you like, '
                'lists of texts under "expected" and "forbidden".'
            )
            continue
        text_of = make_storable(value["question"]).text.strip()
        entry = entries.setdefault(text_of, _Entry(place=place, text=text_of))
        entry.expected += _texts(value.get("expected"))
        entry.forbidden += _texts(value.get("forbidden"))
    yield from entries.values()


def _is_entry(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("question"), str):
        return False
    if not set(value) <= set(COLUMNS):
        return False
    return all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in (value.get("expected") or [], value.get("forbidden") or [])
    )


def _texts(names: list[str] | None) -> list[str]:
    return [name for name in (make_storable(one).text.strip() for one in names or []) if name]


def _check_texts(entries: Iterable[_Entry], problems: list[str]) -> None:
    for entry in entries:
        try:
            entry.text = parse_query(entry.text).text
        except KaizenError as error:
            problems.append(f"{entry.place}: {error.message}")
        if max(len(set(entry.expected)), len(set(entry.forbidden))) > MOST_DOCUMENTS:
            problems.append(
                f"{entry.place}: a question may name {MOST_DOCUMENTS} documents of a kind at most."
            )


# --- finding the documents


class _Shelf:
    """The documents that a file names, by everything they may be called."""

    def __init__(self, authority: Authority, names: Iterable[str]) -> None:
        called = {name for full in names for name in (full, full.partition(BETWEEN)[2]) if name}
        ids = [name for name in called if _as_id(name) is not None]
        rows = (
            Document.objects.filter(organization_id=authority.organization_id, deleted_at=None)
            .filter(Q(pk__in=ids) | Q(external_id__in=called) | Q(path__in=called))
            .values_list("pk", "source__name", "external_id", "path")
        )
        self._ids: set[UUID] = set()
        self._external: dict[str, list[tuple[UUID, str]]] = {}
        self._paths: dict[str, list[tuple[UUID, str]]] = {}
        for pk, source, external_id, path in rows:
            self._ids.add(pk)
            self._external.setdefault(external_id, []).append((pk, source))
            self._paths.setdefault(path, []).append((pk, source))

    def find(self, name: str) -> set[UUID]:
        """The documents called so: by id, else by id at the source, else by path."""
        own_id = _as_id(name)
        if own_id in self._ids:
            return {own_id} if own_id else set()
        source, between, rest = name.partition(BETWEEN)
        for names in (self._external, self._paths):
            found = {pk for pk, _ in names.get(name, ())}
            if not found and between:
                found = {pk for pk, of in names.get(rest, ()) if of == source}
            if found:
                return found
        return set()


def _look_up(authority: Authority, entries: Sequence[_Entry], problems: list[str]) -> list[Wanted]:
    shelf = _Shelf(authority, (name for one in entries for name in (*one.expected, *one.forbidden)))
    wanted = []
    for entry in entries:
        expected = _resolve(shelf, entry, entry.expected, problems)
        forbidden = _resolve(shelf, entry, entry.forbidden, problems)
        if set(expected) & set(forbidden):
            problems.append(f"{entry.place}: a document can't be both expected and forbidden.")
        wanted.append(Wanted(text=entry.text, expected=expected, forbidden=forbidden))
    return wanted


def _resolve(
    shelf: _Shelf, entry: _Entry, names: Iterable[str], problems: list[str]
) -> tuple[UUID, ...]:
    found: dict[UUID, None] = {}
    for name in dict.fromkeys(names):
        documents = shelf.find(name)
        if len(documents) == 1:
            found[documents.pop()] = None
        elif documents:
            problems.append(
                f"{entry.place}: {len(documents)} documents are called “{name}”. Put the source "
                f"before it, as in “Source{BETWEEN}{name}”, or use the document's id."
            )
        else:
            problems.append(f"{entry.place}: no document is called “{name}”.")
    return tuple(found)


def _as_id(name: str) -> UUID | None:
    try:
        return UUID(name)
    except ValueError:
        return None


# --- writing


def _list_entries(question_set: QuestionSet) -> list[_Entry]:
    questions = Question.objects.filter(question_set=question_set, removed_at=None)
    entries = {
        pk: _Entry(place="", text=text)
        for pk, text in questions.order_by("created_at", "pk").values_list("pk", "text")
    }
    rows = QuestionDocument.objects.filter(
        question__in=list(entries), document__deleted_at=None
    ).order_by("document__source__name", "document__external_id")
    for row in rows.values(
        "question_id", "kind", "document_id", "document__external_id", "document__source__name"
    ):
        entry = entries[row["question_id"]]
        is_expected = row["kind"] == QuestionDocument.Kind.EXPECTED
        (entry.expected if is_expected else entry.forbidden).append(_name(row))
    return list(entries.values())


def _name(row: Mapping[str, Any]) -> str:
    """How a document is named so that it is found again: by source and its id there, unless those
    couldn't be told apart or written in one line.
    """
    source, external_id = row["document__source__name"], row["document__external_id"]
    name = f"{source}{BETWEEN}{external_id}"
    is_plain = name == " ".join(name.split()) and BETWEEN not in source
    return name if is_plain and external_id else str(row["document_id"])
