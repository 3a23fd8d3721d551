"""Where an answer's text goes while it is being written: live to who watches, in batches to the
journal.

Live text is at most JOURNAL_SECONDS ahead of the journal. The window between live frames widens
when the machine is busy, since the next frame waits for the last one.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType

from django.db import DatabaseError

from agents.guard.contract import LeaseLost
from conversations.gate import Gate
from conversations.journal import topic
from kaizen.kernel.bells import ring_soon
from kaizen.kernel.errors import KaizenError
from kaizen.kernel.threads import in_database

logger = logging.getLogger(__name__)

LIVE_SECONDS = 0.08
JOURNAL_SECONDS = 0.25


class Sink:
    """The text of one run's answer, over all of its model calls. Use as an async context
    manager.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._topic = topic(gate.facts.conversation_id)
        self._pending_live = ""
        self._pending_journal = ""
        self._live_offset = 0
        self._journal_offset = 0
        self._flushing = asyncio.Lock()
        self._pump: asyncio.Task[None] | None = None
        self.lost = False

    async def __aenter__(self) -> Sink:
        self._pump = asyncio.create_task(self._run(), name=f"sink {self._gate.facts.run_id}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pump is not None:
            async with self._flushing:  # Between two writes, so that no piece is lost half-way.
                self._pump.cancel()
        await self.flush()

    def add(self, piece: str) -> None:
        """Take the next piece."""
        self._pending_live += piece
        self._pending_journal += piece

    def add_break(self) -> None:
        """Set what a further model call says apart from what was said before."""
        if self._journal_offset or self._pending_journal:
            self.add("\n\n")

    async def flush(self) -> None:
        """Journal and show all that was taken."""
        async with self._flushing:
            await self._show()
            await self._journal()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        journaled_at = loop.time()
        while True:
            await asyncio.sleep(LIVE_SECONDS)
            async with self._flushing:
                await self._show()
                if loop.time() - journaled_at >= JOURNAL_SECONDS:
                    await self._journal()
                    journaled_at = loop.time()

    async def _show(self) -> None:
        if not self._pending_live:
            return
        piece, self._pending_live = self._pending_live, ""
        offset = self._live_offset
        self._live_offset += len(piece)
        await ring_soon(
            self._topic,
            {"live": True, "message": str(self._gate.answer_id), "offset": offset, "text": piece},
        )

    async def _journal(self) -> None:
        if not self._pending_journal or self.lost:
            return
        piece, self._pending_journal = self._pending_journal, ""
        offset = self._journal_offset
        self._journal_offset += len(piece)
        try:
            await in_database(self._gate.append_text, offset=offset, text=piece)
        except DatabaseError:
            # Nothing was written: keep the piece and try again with the next one.
            self._pending_journal = piece + self._pending_journal
            self._journal_offset = offset
            logger.warning(
                "run %s: its text could not be journaled just now", self._gate.facts.run_id
            )
        except (LeaseLost, KaizenError) as error:
            # The run is no longer ours to write to; whoever watches is rewound to what the journal
            # holds.
            self.lost = True
            logger.info(
                "run %s: text after the lease was dropped (%s)",
                self._gate.facts.run_id,
                type(error).__name__,
            )
