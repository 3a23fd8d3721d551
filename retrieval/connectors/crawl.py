"""How far a crawl is: what it knew before, what it found this time, what it has still to see.

A plain value that fits into a checkpoint: the engine may stop a crawl after any page and go on in
another worker. Bounded by the configured number of pages. Never connects.
"""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel, Field, ValidationError

LONGEST_URL = 1_000
_LONGEST_VALIDATOR = 200


class Seen(NamedTuple):
    """A page that was read: `identity` is its canonical address where that isn't its own."""

    depth: int
    revision: str
    etag: str
    modified: str
    identity: str
    media_type: str


class Crawl(BaseModel):
    """The state of one source's crawl.

    Attributes:
        before: the pages of the last pass that this one hasn't seen yet.
        found: the pages of this pass.
        passed: addresses of this pass that were asked for and gave no page.
        queue: what is still to be asked for, with its distance from the start.
        is_whole: whether what isn't found is gone; False once a page failed that nobody knew.
        failures: requests in a row that failed.
        waits: how often the next address sent us away.
    """

    before: dict[str, Seen] = Field(default_factory=dict)
    found: dict[str, Seen] = Field(default_factory=dict)
    passed: dict[str, int] = Field(default_factory=dict)
    queue: list[tuple[str, int]] = Field(default_factory=list)
    hosts: list[str] = Field(default_factory=list)
    is_running: bool = False
    is_whole: bool = True
    failures: int = 0
    waits: int = 0
    trouble: str = ""
    _queued_urls: set[str] | None = None
    _found_identities: set[str] | None = None

    @classmethod
    def load(cls, checkpoint: str | None) -> Crawl:
        """What `dump` wrote; a fresh crawl for anything else."""
        try:
            return cls.model_validate_json(checkpoint or "{}")
        except ValidationError:
            return cls()

    def dump(self) -> str:
        """The checkpoint."""
        return self.model_dump_json(exclude_defaults=True)

    def begin(self, hosts: list[str]) -> None:
        """Start a new pass; what the last one found is known from now on."""
        self.before = {**self.before, **self.found}
        self.found, self.passed, self.queue, self.hosts = {}, {}, [], hosts
        self.is_running = self.is_whole = True
        self.failures = self.waits = 0
        self.trouble = ""
        self._queued_urls = self._found_identities = None

    def finish(self) -> None:
        """End the pass: what wasn't found is forgotten."""
        self.before, self.passed, self.queue = {}, {}, []
        self.is_running = False
        self._queued_urls = None

    def add(self, url: str, depth: int, *, most_pages: int, first: bool = False) -> None:
        """Queue an address unless it was seen or queued in this pass, or there are too many."""
        total = len(self.queue) + len(self.found) + len(self.passed)
        if len(url) > LONGEST_URL or total > most_pages * 3 + 100:
            return
        if url in self.found or url in self.passed or url in self._queued():
            return
        self.queue.insert(0 if first else len(self.queue), (url, depth))
        self._queued().add(url)

    def take(self, *, most_pages: int) -> tuple[str, int] | None:
        """The next address and its depth; None when the pass is over."""
        if not self.queue or len(self.found) >= most_pages:
            return None
        url, depth = self.queue.pop(0)
        self._queued().discard(url)
        # So that a page that links to itself isn't queued again.
        self.passed[url] = 1
        return url, depth

    def put_back(self, url: str, depth: int) -> None:
        """Let an address that was taken be the next one again."""
        self.passed.pop(url, None)
        self.queue.insert(0, (url, depth))
        self._queued().add(url)

    def keep(self, url: str, seen: Seen) -> bool:
        """Note a page. False when another address gave the same page in this pass."""
        self.before.pop(url, None)
        identity = seen.identity or url
        if identity in self._identities():
            return False
        self.passed.pop(url, None)
        self.found[url] = seen
        self._identities().add(identity)
        return True

    def leave(self, url: str) -> None:
        """Note that an address gives no page (any more)."""
        self.before.pop(url, None)

    def fail(self, url: str, why: str) -> Seen | None:
        """Note that an address couldn't be read; the page it gave last time, which stays."""
        self.trouble = self.trouble or why[:300]
        known = self.before.get(url)
        if known is None:
            self.is_whole = False
            return None
        return known if self.keep(url, known) else None

    def _queued(self) -> set[str]:
        if self._queued_urls is None:
            self._queued_urls = {url for url, _ in self.queue}
        return self._queued_urls

    def _identities(self) -> set[str]:
        if self._found_identities is None:
            self._found_identities = {seen.identity or url for url, seen in self.found.items()}
        return self._found_identities


def make_seen(
    depth: int, *, revision: str, etag: str, modified: str, identity: str, media_type: str
) -> Seen:
    """A page as it was read. What is too long to be sent back is left out."""
    return Seen(
        depth,
        revision,
        etag if len(etag) <= _LONGEST_VALIDATOR else "",
        modified if len(modified) <= _LONGEST_VALIDATOR else "",
        identity,
        media_type,
    )
