"""`import_folder PATH --organization SLUG --source NAME`: make a source hold what a folder holds.

Promises: unchanged files are left alone, changed ones replaced, files gone from the folder deleted
from the source; what can't be read is named with its reason. Reads in this process, so no worker
needs to run. Not for: anything but an operator at the machine; it acts as a member and has that
member's rights.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections, connections

from accounts.authority import Authority, Channel, from_membership
from accounts.models import Membership, Role
from accounts.permissions import Verb
from accounts.queries import get_everyone
from accounts.sharing import grant
from kaizen.kernel.errors import KaizenError
from kaizen.kernel.tenancy import scope
from retrieval.acl import visible_sources
from retrieval.documents import delete_document, upload
from retrieval.ingest.store import Ended, Ingested, ingest_document
from retrieval.models import Document, Source
from retrieval.sources import create_source

ENDINGS = frozenset(
    [
        ".md",
        ".markdown",
        ".txt",
        ".rst",
        ".log",
        ".html",
        ".htm",
        ".pdf",
        ".docx",
        ".pptx",
        ".xlsx",
        ".csv",
        ".tsv",
        ".eml",
    ]
)
_EVERY = 25
_LONGEST_LINE = 78


class Fate(StrEnum):
    """What became of a file."""

    READ = "read"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    DELETED = "deleted"


@dataclass(slots=True)
class Tally:
    """What the import did so far."""

    total: int
    fates: Counter[Fate] = field(default_factory=Counter)
    passages: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        """Files that were looked at."""
        return self.fates.total() - self.fates[Fate.DELETED]

    @property
    def seconds(self) -> float:
        """Since the start."""
        return max(time.monotonic() - self.started, 0.001)

    def line(self) -> str:
        """The progress in one line."""
        rate = self.done / self.seconds
        return f"{self.done} of {self.total} files, {self.passages} passages, {rate:.1f} files/s"


class Command(BaseCommand):
    """See the module."""

    help = "Make a source hold what a folder holds: Markdown, text, HTML, PDF, Office, CSV, e-mail."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument(
            "--organization", required=True, help="the organisation's name in addresses"
        )
        parser.add_argument(
            "--source", required=True, help="name of the source; made if it isn't there"
        )
        parser.add_argument(
            "--as", dest="email", help="act as this member; an owner is taken where none is named"
        )
        parser.add_argument(
            "--everyone",
            action="store_true",
            help="let everyone in the organisation see the source",
        )
        parser.add_argument(
            "--threads", type=int, default=1, choices=(1, 2), help="files read at the same time"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["path"]
        if not folder.is_dir():
            raise CommandError(f"There is no folder {folder}.")
        try:
            authority = _find_actor(options["organization"], email=options["email"])
            source = _find_source(authority, name=options["source"], everyone=options["everyone"])
        except KaizenError as error:
            raise CommandError(error.message) from error
        files = list_files(folder)
        tally = Tally(len(files))
        self._import(authority, source, folder, files, tally, threads=options["threads"])
        _delete_gone(authority, source, files, tally)
        self._summarise(tally)
        if files and not tally.fates[Fate.READ] and not tally.fates[Fate.UNCHANGED]:
            raise CommandError("Nothing could be read.")

    def _import(
        self,
        authority: Authority,
        source: Source,
        folder: Path,
        files: list[str],
        tally: Tally,
        *,
        threads: int,
    ) -> None:
        def one(name: str) -> tuple[str, Ingested | None]:
            return name, import_file(authority, source, folder=folder, name=name)

        if threads == 1:
            self._watch(map(one, files), tally)
            return

        def one_of_many(name: str) -> tuple[str, Ingested | None]:
            close_old_connections()
            try:
                return one(name)
            finally:
                connections.close_all()

        with ThreadPoolExecutor(threads) as pool:
            self._watch(pool.map(one_of_many, files), tally)

    def _watch(self, results: Iterator[tuple[str, Ingested | None]], tally: Tally) -> None:
        is_terminal = self.stdout.isatty()
        for name, ingested in results:
            _count(tally, name, ingested)
            if is_terminal:
                self.stdout.write(f"\r{tally.line():<{_LONGEST_LINE}}", ending="")
                self.stdout.flush()
            elif tally.done % _EVERY == 0:
                self.stdout.write(tally.line())
        if is_terminal:
            self.stdout.write("")

    def _summarise(self, tally: Tally) -> None:
        counts = ", ".join(f"{tally.fates[fate]} {fate}" for fate in Fate)
        self.stdout.write(f"{counts}; {tally.passages} passages; {tally.seconds / 60:.1f} minutes")
        for name, why in tally.failures:
            self.stdout.write(f"  {name}: {why}")


def list_files(folder: Path) -> list[str]:
    """The files of a folder that can be read, as paths relative to it; hidden ones and links
    outside left out.
    """
    root = folder.resolve()
    found = []
    for file in folder.rglob("*"):
        relative = file.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in relative.parts)
        if is_hidden or file.suffix.lower() not in ENDINGS or not file.is_file():
            continue
        if file.resolve().is_relative_to(root):
            found.append(relative.as_posix())
    return sorted(found)


def import_file(
    authority: Authority, source: Source, *, folder: Path, name: str
) -> Ingested | None:
    """Store and read one file; None when it was there already.

    What is refused comes back as failed.
    """
    try:
        data = (folder / name).read_bytes()
        with scope(authority):
            document = upload(
                authority,
                source=source,
                file_name=Path(name).name,
                data=data,
                external_id=name,
                path=name,
                start=False,
            )
    except KaizenError as error:
        return Ingested(Ended.FAILED, message=error.message)
    except OSError as error:
        return Ingested(Ended.FAILED, message=f"The file can't be opened: {error.strerror}.")
    if document.state == Document.State.INDEXED:
        return None
    return _wait_for(document.pk)


def _wait_for(document_id: UUID) -> Ingested:
    """Read the document here, or say how a worker that was quicker fared."""
    ingested = ingest_document(document_id)
    if ingested.ended in (Ended.INDEXED, Ended.FAILED):
        return ingested
    document = Document.objects.get(pk=document_id)
    if document.state == Document.State.FAILED:
        return Ingested(Ended.FAILED, message=document.state_message)
    return Ingested(Ended.INDEXED, document.passage_count)


def _count(tally: Tally, name: str, ingested: Ingested | None) -> None:
    if ingested is None:
        tally.fates[Fate.UNCHANGED] += 1
    elif ingested.ended is Ended.INDEXED:
        tally.fates[Fate.READ] += 1
        tally.passages += ingested.passages
    else:
        tally.fates[Fate.FAILED] += 1
        tally.failures.append((name, ingested.message))


def _delete_gone(authority: Authority, source: Source, files: list[str], tally: Tally) -> None:
    """Delete what an earlier import brought and the folder no longer holds.

    Uploads by hand have no path and stay.
    """
    gone = Document.objects.filter(source=source, deleted_at=None).exclude(path="")
    for document in gone.exclude(external_id__in=files):
        with scope(authority):
            delete_document(authority, document=document)
        tally.fates[Fate.DELETED] += 1


def _find_actor(slug: str, *, email: str | None) -> Authority:
    """The member to act as: the one named, else the organisation's first owner."""
    members = Membership.objects.select_related("organization", "user").filter(
        organization__slug=slug, state=Membership.State.ACTIVE
    )
    if email:
        member = members.filter(user__email__iexact=email).first()
    else:
        member = members.filter(role=Role.OWNER).order_by("id").first()
    if member is None:
        raise CommandError(f"{email or 'An owner'} isn't an active member of {slug!r}.")
    return from_membership(member, channel=Channel.COMMAND)


def _find_source(authority: Authority, *, name: str, everyone: bool) -> Source:
    """The source of this name that the member may change, or a new one that they manage."""
    with scope(authority):
        source = visible_sources(authority, Verb.CHANGE).filter(name=name).first()
        if source is None:
            source = create_source(authority, name=name)
        if everyone:
            team = get_everyone(authority.organization_id)
            grant(authority, principal=team, verb=Verb.VIEW, obj=source)
    return source
