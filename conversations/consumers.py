"""The member's websocket: what happens in one conversation, from any number on, live.

Everything that is shown was read under the member's rights of that moment; at every bell, and at
least every two seconds, session and access are proven again, and the socket is closed when either
is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError
from django.urls import set_script_prefix

from conversations import turns, watch
from conversations.bridge import poll_seconds
from conversations.citations import Citations
from conversations.journal import topic
from conversations.projection import Numbering
from conversations.queries import get_conversation
from conversations.stream import BlockProgress, TextProgress
from conversations.watch import Reading, Watcher
from kaizen.kernel import bells
from kaizen.kernel.errors import Invalid, KaizenError, Unauthenticated
from kaizen.kernel.tenancy import scope
from kaizen.kernel.threads import in_database

logger = logging.getLogger(__name__)

BAD_FRAME, SIGNED_OUT, LOST, TRY_LATER = 4400, 4401, 4403, 4503
RENDER_SECONDS = 0.2
HEARTBEAT_SECONDS = 20.0
MAX_FRAME = 512 * 1024
UNSAVED = "This couldn't be saved just now. Your text is kept; try again in a moment."


class ConversationConsumer(AsyncWebsocketConsumer):
    """One open page (or program) on one conversation."""

    async def connect(self) -> None:
        """Accept, then follow; a refusal is told by close code, which a refused handshake can't
        carry.
        """
        arguments = self.scope["url_route"]["kwargs"]
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        after = query.get("after", ["0"])[0]
        session = self.scope.get("session")
        self.follower: asyncio.Task[None] | None = None
        await self.accept()
        if not after.isdecimal() or len(after) > 18:
            await self.close(code=BAD_FRAME)
            return
        self.watcher = Watcher(
            session_key=getattr(session, "session_key", None) or "",
            slug=arguments["slug"],
            conversation_id=arguments["conversation_id"],
            renders_html=query.get("render", ["text"])[0] == "html",
        )
        self.follower = asyncio.create_task(self._follow_or_close(int(after)))

    async def disconnect(self, code: int) -> None:
        """Stop following; what runs goes on."""
        if self.follower is not None:
            self.follower.cancel()
            await asyncio.gather(self.follower, return_exceptions=True)

    # --- showing

    async def _follow_or_close(self, after: int) -> None:
        try:
            await self._follow(after)
        except Unauthenticated:
            await self.close(code=SIGNED_OUT)
        except KaizenError:
            await self.close(code=LOST)
        except DatabaseError:
            logger.warning("a watcher was sent away: the database doesn't answer")
            await self.close(code=TRY_LATER)

    async def _follow(self, after: int) -> None:
        set_script_prefix(f"/o/{self.watcher.slug}/")  # Links in blocks stay in the organisation.
        show = _Show(self, after)
        async with bells.listen(topic(self.watcher.conversation_id)) as bell:
            await show.read()
            await self._send({"type": "caught_up", "seq": show.seq})
            while True:
                message = await show.next_bell(bell)
                if message is None:
                    await show.read()
                elif message.get("live"):
                    await show.live(message)
                elif message.get("seq", 0) > show.seq:
                    await show.read()
                await show.render_when_due()

    # --- being told

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Act on what the member sends: a message, a stop, a retry."""
        try:
            if text_data is None or len(text_data) > MAX_FRAME:
                raise Invalid("That is too long to send at once.")
            frame = json.loads(text_data)
            if not isinstance(frame, dict):
                raise Invalid("A frame is one JSON object.")
        except (ValueError, RecursionError, Invalid):
            await self.close(code=BAD_FRAME)
            return
        key = frame.get("key")
        try:
            accepted = await in_database(self._act, frame)
        except Unauthenticated:
            await self.close(code=SIGNED_OUT)
        except KaizenError as error:
            await self._send(
                {"type": "refused", "key": key, "code": error.code, "message": error.message}
            )
        except DatabaseError:
            logger.warning("a member's frame could not be handled: the database doesn't answer")
            await self._send(
                {
                    "type": "refused",
                    "key": key,
                    "code": "unavailable",
                    "message": UNSAVED,
                }
            )
        else:
            await self._send({"type": "accepted", "key": key, **accepted})

    def _act(self, frame: dict[str, Any]) -> dict[str, Any]:
        authority = watch.authorize(self.watcher)
        key = frame.get("key")
        with scope(authority):
            match frame.get("type"):
                case "send":
                    conversation = get_conversation(authority, self.watcher.conversation_id)
                    turn = turns.start(
                        authority,
                        text=_text(frame, "text"),
                        key=_text(frame, "key"),
                        conversation=conversation,
                    )
                case "retry":
                    turn = turns.retry(
                        authority, run_id=_text(frame, "run"), key=_text(frame, "key")
                    )
                case "stop":
                    run = turns.stop(authority, run_id=_text(frame, "run"))
                    return {"run": str(run.pk), "message": str(run.answer_id)}
                case _:
                    raise Invalid(f"Unknown frame; send, stop and retry are known (key {key!r}).")
        return {"run": str(turn.run.pk), "message": str(turn.message.pk)}

    async def _send(self, frame: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(frame, ensure_ascii=False))


class _Show:
    """How far one watcher has been shown the conversation."""

    def __init__(self, consumer: ConversationConsumer, after: int) -> None:
        self._consumer = consumer
        self.seq = after
        self._first = True
        self._html = consumer.watcher.renders_html
        self._texts: dict[str, TextProgress] = {}
        self._blocks: dict[str, BlockProgress] = {}
        self._citations = Citations(passages={}, hidden=frozenset())
        self._withholds = False
        self._numbering: dict[str, Numbering] = {}
        self._rendered_at = 0.0
        self._spoke_at = time.monotonic()
        self._proven_at = time.monotonic()

    async def next_bell(self, bell: bells.Bell) -> dict[str, Any] | None:
        """The next bell, or None when it is time to look anyway."""
        wait = poll_seconds()
        if any(blocks.dirty for blocks in self._blocks.values()):
            wait = RENDER_SECONDS
        elif time.monotonic() - self._spoke_at > HEARTBEAT_SECONDS:
            await self._send({"type": "heartbeat"})
        if time.monotonic() - self._proven_at > poll_seconds():
            return None
        try:
            return await asyncio.wait_for(bell.get(), wait)
        except TimeoutError:
            return {} if wait == RENDER_SECONDS else None

    async def read(self) -> None:
        """Read and show everything after what was shown; proves session and access again."""
        while True:
            reading = await in_database(
                watch.read, self._consumer.watcher, after=self.seq, first=self._first
            )
            self._proven_at = time.monotonic()
            self._first = False
            self._begin(reading)
            for event in reading.events:
                await self._show(event)
            if not reading.events:
                return

    def _begin(self, reading: Reading) -> None:
        if reading.citations is not None:
            self._withholds = reading.withholds
            self._citations = reading.citations
            for numbering in self._numbering.values():
                numbering.citations = reading.citations
        for message, text in reading.begun.items():
            if self._html:
                self._blocks_of(message).take(offset=0, text=text)
            else:
                self._texts[message] = TextProgress(message, sent=len(text))

    async def _show(self, event: dict[str, Any]) -> None:
        data = event["data"]
        self.seq = event["seq"]
        if event["kind"] == "text":
            message, size = data["message"], len(data["text"])
            if self._html:
                self._blocks_of(message).take(offset=data["offset"], text=data["text"])
                data = {"message": message, "offset": data["offset"], "length": size}
            else:
                # Its first piece here is where the watcher's own reading stopped.
                progress = self._texts.setdefault(
                    message, TextProgress(message, sent=data["offset"])
                )
                new = progress.take(offset=data["offset"], text=data["text"])
                data = {
                    "message": message,
                    "offset": progress.sent - len(new or ""),
                    "text": new or "",
                }
        elif event["kind"] == "run_finished":
            await self._finish(data)
        await self._send({"type": "event", **event, "data": data})

    async def _finish(self, data: dict[str, Any]) -> None:
        """Take back live text that the journal never got, and let go of the run."""
        message, length = data["message"], data["length"]
        blocks, text = self._blocks.pop(message, None), self._texts.pop(message, None)
        sent = blocks.progress.sent if blocks else text.sent if text else 0
        if sent > length:
            await self._send({"type": "rewind", "message": message, "offset": length})
        self._numbering.pop(message, None)

    async def live(self, frame: dict[str, Any]) -> None:
        """Show a piece of live text, unless something before it is missing: then read.

        Live text is as the run's own member may see it. Who may see less waits for the journal,
        which is read, and covered, under their own rights.
        """
        if self._withholds:
            return
        message, offset, text = frame["message"], frame["offset"], frame["text"]
        if self._html:
            if not self._blocks_of(message).take(offset=offset, text=text):
                await self.read()
            return
        progress = self._texts.setdefault(message, TextProgress(message))
        new = progress.take(offset=offset, text=text)
        if new is None:
            await self.read()
        elif new:
            await self._send(
                {
                    "type": "text",
                    "message": message,
                    "offset": progress.sent - len(new),
                    "text": new,
                }
            )

    async def render_when_due(self) -> None:
        """Send the blocks that changed, at most every RENDER_SECONDS."""
        if time.monotonic() - self._rendered_at < RENDER_SECONDS:
            return
        for message, blocks in self._blocks.items():
            if blocks.dirty:
                self._rendered_at = time.monotonic()
                numbering = self._numbering.setdefault(message, Numbering(self._citations))
                for frame in blocks.frames(numbering.html):
                    await self._send(frame)

    def _blocks_of(self, message: str) -> BlockProgress:
        return self._blocks.setdefault(message, BlockProgress(message))

    async def _send(self, frame: dict[str, Any]) -> None:
        self._spoke_at = time.monotonic()
        with contextlib.suppress(
            RuntimeError
        ):  # The socket closed meanwhile; the follower ends with it.
            await self._consumer._send(frame)


def _text(frame: dict[str, Any], name: str) -> str:
    value = frame.get(name)
    if not isinstance(value, str) or (name == "key" and not 1 <= len(value) <= 255):
        raise Invalid(f"The frame needs a text called {name!r}.")
    return value
