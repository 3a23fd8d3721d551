"""The only writer of model calls, tool calls and the ledger."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.guard.contract import RunFacts
from agents.models import LanguageModel, LedgerEntry, ModelCall, ToolCall
from agents.providers.contract import Usage
from kaizen.kernel.clock import now

MILLION = 1_000_000


def price_row(model: LanguageModel) -> dict[str, int]:
    """The prices of `model` as they are now, kept with each call so that a correction can be
    re-run.
    """
    return {
        "input": model.input_price,
        "cached_input": model.cached_input_price,
        "output": model.output_price,
    }


def cost_of(usage: Usage, price: dict[str, int]) -> int:
    """Millionths of a dollar for `usage` at `price` (millionths per million tokens), rounded up."""
    fresh = max(0, usage.input_tokens - usage.cached_input_tokens)
    total = (
        fresh * price["input"]
        + usage.cached_input_tokens * price["cached_input"]
        + usage.output_tokens * price["output"]
    )
    return -(-total // MILLION)


def start_model_call(facts: RunFacts, *, step: int, model: LanguageModel) -> ModelCall:
    """Note that a model is about to be called."""
    return ModelCall.objects.create(
        organization_id=facts.organization_id,
        run_id=facts.run_id,
        attempt=facts.attempt,
        step=step,
        language_model=model,
        price=price_row(model),
    )


@transaction.atomic
def settle_model_call(
    facts: RunFacts,
    call: ModelCall,
    *,
    state: ModelCall.State,
    usage: Usage,
    raw_usage: dict[str, Any] | None = None,
    error_code: str = "",
) -> None:
    """Close a model call with what it used and write the ledger, once."""
    cost = cost_of(usage, call.price)
    closed = ModelCall.objects.filter(pk=call.pk, state=ModelCall.State.STARTED).update(
        state=state,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        usage_estimated=usage.estimated,
        raw_usage=raw_usage,
        cost=cost,
        error_code=error_code,
        finished_at=now(),
    )
    if closed and (usage.input_tokens or usage.output_tokens):
        LedgerEntry.objects.create(
            organization_id=facts.organization_id,
            run_id=facts.run_id,
            model_call_id=call.pk,
            user_id=facts.user_id,
            agent_id=facts.agent_id,
            language_model_id=facts.language_model_id,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            estimated=usage.estimated,
            cost=cost,
        )


def idempotency_key(facts: RunFacts, *, step: int, call_id: str) -> str:
    """One key for one call of a run: the same whoever asks, and however often."""
    return hashlib.sha256(
        f"{facts.run_id}/{step}/{call_id}".encode("utf-8", "surrogatepass")
    ).hexdigest()


def find_tool_call(facts: RunFacts, *, key: str) -> ToolCall | None:
    """The call that already stands under `key`, or None."""
    return ToolCall.objects.filter(
        organization_id=facts.organization_id, idempotency_key=key
    ).first()


def start_tool_call(
    facts: RunFacts,
    *,
    step: int,
    call_id: str,
    name: str,
    arguments_raw: str,
    arguments: dict[str, Any] | None,
    effect: str,
    key: str,
) -> ToolCall:
    """Write the intent of a tool call."""
    return ToolCall.objects.create(
        organization_id=facts.organization_id,
        run_id=facts.run_id,
        attempt=facts.attempt,
        step=step,
        call_id=call_id[:128],
        name=name[:64],
        arguments_raw=arguments_raw,
        arguments=arguments,
        effect=effect,
        idempotency_key=key,
    )


def finish_tool_call(
    call: ToolCall,
    *,
    state: ToolCall.State,
    record: dict[str, Any] | None = None,
    label: str = "",
    error: str = "",
) -> ToolCall:
    """Write the result of a tool call."""
    call.state = state
    call.record = record
    call.label = label[:200]
    call.error = error[:500]
    call.finished_at = now()
    call.save(update_fields=["state", "record", "label", "error", "finished_at"])
    return call


def get_tool_calls(organization_id: UUID, *, ids: list[UUID]) -> dict[UUID, ToolCall]:
    """Tool calls by id, for projections."""
    return {
        call.id: call
        for call in ToolCall.objects.filter(organization_id=organization_id, id__in=ids)
    }
