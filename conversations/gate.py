"""What the guard may do with a run: `agents.guard.contract.RunGate`, implemented over the lease
and the journal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.conf import settings

from accounts.authority import Authority, Channel, Narrowing, from_user_id
from agents import calls
from agents.guard.contract import LeaseLost, RunFacts
from agents.guard.gateway import load_part
from agents.guard.projection import GONE, project
from agents.guard.registry import find_tool
from agents.models import LanguageModel, ToolCall
from agents.prepare import estimate_tokens, start_frame
from agents.providers.contract import Message as ModelMessage
from agents.providers.contract import Opaque, Text, ToolResult, ToolUse
from agents.runtime.protocol import ContextItem, Start
from conversations import journal, leases
from conversations.citations import Citations, resolve
from conversations.leases import Lease
from conversations.models import Conversation, JournalEvent, Message, Run
from kaizen.kernel.models import exact_json
from kaizen.kernel.tenancy import organization_scope

NOT_RUN = "This call was not run."
HISTORY = 200


class Gate:
    """One attempt of one run. Every `hold` proves the lease and the member's place afresh."""

    def __init__(self, lease: Lease, run: Run) -> None:
        self.lease = lease
        self._conversation_id = run.conversation_id
        self._question_id = run.question_id
        self.answer_id = run.answer_id
        self.facts = RunFacts(
            run_id=run.pk,
            organization_id=run.organization_id,
            conversation_id=run.conversation_id,
            attempt=lease.attempt,
            agent_id=run.agent_version.agent_id,
            user_id=run.user_id,
            language_model_id=run.language_model_id,
            definition=run.agent_version.definition,
        )

    @contextmanager
    def hold(self) -> Iterator[Authority]:
        """See the contract. Locks the run."""
        with organization_scope(self.facts.organization_id):
            if leases.lock(self.lease).stop_requested_at is not None:
                raise LeaseLost  # A member pressed stop: nothing new may begin.
            yield self._authority()

    def _authority(self) -> Authority:
        sources = self.facts.definition["sources"]
        return from_user_id(
            self.facts.user_id, organization_id=self.facts.organization_id, channel=Channel.RUN
        ).narrowed(
            Narrowing(
                source_keys=None if sources is None else frozenset(sources),
                run_id=self.facts.run_id,
            )
        )

    def append(self, kind: str, data: dict[str, Any]) -> int:
        """See the contract."""
        return journal.append(
            organization_id=self.facts.organization_id,
            conversation_id=self._conversation_id,
            kind=kind,
            data=data,
            run_id=self.facts.run_id,
            attempt=self.facts.attempt,
        )

    def append_text(self, *, offset: int, text: str) -> None:
        """Journal a piece of the answer; what had arrived before a stop still counts."""
        with organization_scope(self.facts.organization_id):
            leases.lock(self.lease)
            self.append("text", {"message": str(self.answer_id), "offset": offset, "text": text})

    def start(self) -> Start:
        """The start frame: the conversation up to the question, as references."""
        with self.hold():
            model = LanguageModel.objects.get(pk=self.facts.language_model_id)
            context = [
                ContextItem(
                    ref=_ref(message),
                    kind=_kind(message),
                    tokens=estimate_tokens(len(message.text)),
                )
                for message in self._history()
            ]
            return start_frame(
                run=str(self.facts.run_id),
                attempt=self.facts.attempt,
                lease=self.lease.secret,
                lease_seconds=settings.KAIZEN_LEASE_SECONDS,
                definition=self.facts.definition,
                model=model,
                context=context,
            )

    def _history(self) -> list[Message]:
        """The question and what led to it, oldest first: the newest HISTORY messages."""
        by_id = {
            message.pk: message
            for message in Message.objects.filter(conversation_id=self._conversation_id).order_by(
                "-id"
            )[:HISTORY]
        }
        path: list[Message] = []
        current: UUID | None = self._question_id
        while current in by_id:
            path.append(by_id[current])
            current = path[-1].parent_id
        return path[::-1]

    def messages(self, authority: Authority, refs: Sequence[str]) -> tuple[ModelMessage, ...]:
        """See the contract. A reference that isn't this conversation's is left out."""
        content = _Content.load(self, authority, refs)
        messages: list[ModelMessage] = []
        for position, ref in enumerate(refs):
            kind, _, name = ref.partition(".")
            if kind in ("u", "a"):
                messages.extend(content.said(name))
            elif kind == "m":
                messages.extend(content.replied(name, results=_results_after(refs, position)))
        return tuple(messages)


def _ref(message: Message) -> str:
    return f"{'u' if message.role == Message.Role.USER else 'a'}.{message.pk}"


def _kind(message: Message) -> Any:
    return "user" if message.role == Message.Role.USER else "assistant"


def _results_after(refs: Sequence[str], position: int) -> list[str]:
    """The tool results that follow a model's message directly."""
    results = []
    for ref in refs[position + 1 :]:
        if not ref.startswith("t."):
            break
        results.append(ref[2:])
    return results


class _Content:
    """What references stand for, loaded at once and re-read under the caller's rights."""

    def __init__(
        self,
        *,
        authority: Authority,
        run_id: UUID,
        messages: dict[str, Message],
        replies: dict[str, JournalEvent],
        tool_calls: dict[UUID, ToolCall],
        citations: Citations,
    ) -> None:
        self._authority = authority
        self._run_id = run_id
        self._messages = messages
        self._replies = replies
        self._tool_calls = tool_calls
        self._citations = citations

    @classmethod
    def load(cls, gate: Gate, authority: Authority, refs: Sequence[str]) -> _Content:
        names: dict[str, list[str]] = {"u": [], "a": [], "m": [], "t": []}
        for ref in refs:
            kind, _, name = ref.partition(".")
            names.get(kind, []).append(name)
        facts = gate.facts
        conversation = Conversation.objects.get(
            organization_id=facts.organization_id, pk=facts.conversation_id
        )
        said = Message.objects.filter(
            conversation=conversation, pk__in=_uuids(names["u"] + names["a"])
        )
        replies = JournalEvent.objects.filter(
            conversation=conversation,
            run_id=facts.run_id,
            kind="model_reply",
            seq__in=_numbers(names["m"]),
        )
        tool_calls = calls.get_tool_calls(facts.organization_id, ids=_uuids(names["t"]))
        # By what they are, not by what the reference calls them.
        from_model = bool(replies) or any(
            message.role == Message.Role.ASSISTANT for message in said
        )
        return cls(
            authority=authority,
            run_id=facts.run_id,
            messages={str(message.pk): message for message in said},
            replies={str(event.seq): event for event in replies},
            tool_calls={
                key: call for key, call in tool_calls.items() if call.run_id == facts.run_id
            },
            citations=resolve(authority, conversation)
            if from_model
            else Citations(passages={}, hidden=frozenset()),
        )

    def said(self, name: str) -> list[ModelMessage]:
        """A message of the conversation; an answer that rests on what can't be seen any more is
        left out.
        """
        message = self._messages.get(name)
        if message is None:
            return []
        if message.role == Message.Role.USER:
            return [ModelMessage("user", (Text(message.text),))]
        covered = self._citations.cover(message.text, run_id=message.run_id)
        if covered != message.text or self._citations.cites_hidden(message.text):
            return []
        return [ModelMessage("assistant", (Text(message.text),))]

    def replied(self, name: str, *, results: list[str]) -> list[ModelMessage]:
        """A model's message of this run, and right after it one result for each call it made."""
        event = self._replies.get(name)
        if event is None:
            return []
        loaded = (self._covered(load_part(part)) for part in event.data["parts"])
        parts = tuple(part for part in loaded if part is not None)
        uses = [part for part in parts if isinstance(part, ToolUse)]
        messages = [ModelMessage("assistant", parts)]
        if uses:
            by_call = {
                call.call_id: call
                for call in (self._tool_calls.get(result) for result in _uuids(results))
                if call is not None
            }
            messages.append(
                ModelMessage(
                    "tool", tuple(self._result(use, by_call.get(use.id[:128])) for use in uses)
                )
            )
        return messages

    def _covered(self, part: Text | ToolUse | Opaque) -> Text | ToolUse | Opaque | None:
        """What the run itself said, without what it took from passages that were hidden since."""

        def cover(text: str) -> str:
            return self._citations.cover(text, run_id=self._run_id)

        match part:
            case Text(text):
                return Text(cover(text))
            case ToolUse(call_id, name, arguments):
                return part if cover(arguments) == arguments else ToolUse(call_id, name, "{}")
            case Opaque(_, block):
                text = exact_json(block)
                return part if cover(text) == text else None

    def _result(self, use: ToolUse, call: ToolCall | None) -> ToolResult:
        if call is None:
            return ToolResult(use.id, NOT_RUN, is_error=True)
        text = project(self._authority, call, find_tool(call.name))
        return ToolResult(use.id, text or GONE, is_error=call.state != ToolCall.State.DONE)


def _numbers(names: Sequence[str]) -> list[int]:
    return [int(name) for name in names if re.fullmatch("[0-9]{1,18}", name)]


def _uuids(names: Sequence[str]) -> list[UUID]:
    found = []
    for name in names:
        try:
            found.append(UUID(name))
        except ValueError:
            continue  # A runtime may ask for anything; what isn't a reference of ours is nothing.
    return found
