"""Choosing another embedding model: what it would cost, start, cancel, and how far it is.

Promises: nothing is spent before its estimate was shown, a probe of a few passages aside; the
active space answers until every passage has a vector in the new one. Not for: the building itself
(`retrieval.spaces.build`).
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection, transaction

from accounts.authority import Authority, Capability
from audit.record import record
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Invalid, Missing, Unavailable
from kaizen.kernel.jobs import enqueue
from retrieval.embedders.choice import digest_of, embedder_of
from retrieval.embedders.contract import embed_counted
from retrieval.models import EmbeddingModel, EmbeddingSpace
from retrieval.spaces.active import find_active_space
from retrieval.spaces.dimension import check_dimension
from retrieval.spaces.texts import list_texts

BUILD_JOB = "retrieval.build_space"
PROBED = 16

_COUNT = """
SELECT count(*), count(DISTINCT CASE WHEN c.digest = '' THEN c.key::text ELSE c.digest END),
    coalesce(sum(c.token_count), 0)
FROM retrieval_lexeme l JOIN retrieval_chunk c ON c.key = l.chunk_key
WHERE l.organization_key = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What embedding everything anew would take.

    Attributes:
        passages, texts: all of them, and how many different ones, since equal ones are embedded
            once.
        tokens: that are charged for, as the probe's share says.
        seconds: for one worker, as fast as the probe went.
        cost: in millionths of a dollar.
    """

    passages: int
    texts: int
    tokens: int
    seconds: int
    cost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What trying a model out found, in a sentence."""

    works: bool
    message: str


def check_model(authority: Authority, *, model: EmbeddingModel) -> Tried:
    """Embed one sentence, and say what came back. Raises Denied."""
    authority.check(Capability.CONFIGURE)
    began = time.perf_counter()
    try:
        check_dimension(model.dimension)
        embedder_of(model).embed_documents(["Kaizen asks whether this model answers."])
    except (Invalid, Unavailable) as error:
        tried = Tried(works=False, message=error.message)
    else:
        spent = round(1000 * (time.perf_counter() - began))
        message = f"It answers with vectors of {model.dimension:,} numbers, in {spent:,} ms."
        tried = Tried(works=True, message=message)
    data = {"works": tried.works}
    record(authority, "retrieval.embedding_model_checked", subject=model, data=data)
    return tried


def estimate_change(authority: Authority, *, model: EmbeddingModel) -> Estimate:
    """What a change to `model` would cost, measured on a few passages, which are sent to it.

    Raises Denied, Missing, Conflict where a change is under way or the model is in use, Invalid for
    a model of another size, Unavailable when it doesn't answer.
    """
    model = _check_may_change(authority, model)
    passages, texts, counted = _count(authority.organization_key)
    sample = list_texts(
        organization_key=authority.organization_key, space_key=None, after=0, most=PROBED
    )
    # The first call loads an engine or opens a connection, and says nothing of the speed.
    embedder = embedder_of(model, arena=True)
    embedder.embed_documents(["Kaizen measures the speed of this model."])
    began = time.perf_counter()
    _, charged = embed_counted(embedder, [text.text for text in sample])
    spent = time.perf_counter() - began
    record(
        authority,
        "retrieval.embedding_model_estimated",
        subject=model,
        data={"passages": passages, "probed": len(sample)},
    )
    probed_tokens = sum(text.tokens for text in sample)
    share = charged / probed_tokens if charged and probed_tokens else 1.0
    unique = texts / passages if passages else 0.0
    tokens = round(counted * unique * share)
    return Estimate(
        passages=passages,
        texts=texts,
        tokens=tokens,
        seconds=round(spent / len(sample) * texts) if sample else 0,
        cost=round(tokens * model.price / 1_000_000),
    )


@transaction.atomic
def start_change(
    authority: Authority, *, model: EmbeddingModel, estimate: Estimate
) -> EmbeddingSpace:
    """Begin to build `model`'s space beside the active one, which answers until the switch.

    Raises Denied, Missing, Conflict, Invalid as `estimate_change`.
    """
    model = _check_may_change(authority, model)
    try:
        with transaction.atomic():
            space = EmbeddingSpace.objects.create(
                organization_id=authority.organization_id,
                model=(model.name or model.label)[:120],
                embedding_model=model,
                digest=digest_of(model),
                dimension=model.dimension,
                state=EmbeddingSpace.State.BUILDING,
                estimate=asdict(estimate),
            )
    except IntegrityError:
        raise _under_way() from None
    record(
        authority,
        "retrieval.embedding_change_started",
        subject=space,
        data={"model": str(model.pk), **asdict(estimate)},
    )
    enqueue(BUILD_JOB, space_id=space.pk)
    return space


@transaction.atomic
def cancel_change(authority: Authority, *, space: EmbeddingSpace) -> EmbeddingSpace:
    """Give up a space that is being built; what it holds is removed. Locks its row.

    Raises Denied, Missing, Conflict when it isn't being built any more.
    """
    authority.check(Capability.CONFIGURE)
    found: EmbeddingSpace | None = (
        EmbeddingSpace.objects.select_for_update(no_key=True, of=("self",))
        .filter(organization_id=authority.organization_id, pk=space.pk)
        .first()
    )
    if found is None:
        raise Missing
    if found.state != EmbeddingSpace.State.BUILDING:
        raise Conflict("This space isn't being built any more.", code="not_building")
    found.state, found.retired_at, found.lease_until = EmbeddingSpace.State.RETIRED, now(), None
    found.save(update_fields=["state", "retired_at", "lease_until"])
    record(authority, "retrieval.embedding_change_cancelled", subject=found)
    return found


@transaction.atomic
def retry_now(authority: Authority, *, space: EmbeddingSpace) -> None:
    """Go on building at once, not after the pause that followed a failure. Raises Denied."""
    authority.check(Capability.CONFIGURE)
    building = EmbeddingSpace.objects.filter(
        organization_id=authority.organization_id,
        pk=space.pk,
        state=EmbeddingSpace.State.BUILDING,
    )
    if building.update(retry_at=None):
        enqueue(BUILD_JOB, space_id=space.pk)


def is_in_use(model: EmbeddingModel) -> bool:
    """Whether a space that is active or being built holds this model's vectors."""
    in_use = EmbeddingSpace.objects.filter(
        organization_id=model.organization_id, embedding_model_id=model.pk
    )
    return in_use.exclude(state=EmbeddingSpace.State.RETIRED).exists()


def progress(space: EmbeddingSpace) -> dict[str, Any]:
    """How far a space is: passages with a vector, of all, in percent, and seconds still to go."""
    total, _, _ = _count(space.organization.key)
    done = count_vectors(space)
    estimate = space.estimate or {}
    left = estimate.get("seconds", 0) * (total - done) / total if total else 0
    return {
        "done": done,
        "total": total,
        "percent": min(100, 100 * done // total) if total else 100,
        "seconds_left": round(left),
    }


def count_vectors(space: EmbeddingSpace) -> int:
    """How many passages have a vector in `space`."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM retrieval_vector WHERE organization_key = %s AND space_key = %s",
            [space.organization.key, space.key],
        )
        return int(cursor.fetchone()[0])


def _check_may_change(authority: Authority, model: EmbeddingModel) -> EmbeddingModel:
    authority.check(Capability.CONFIGURE)
    mine = EmbeddingModel.objects.filter(organization_id=authority.organization_id)
    found: EmbeddingModel | None = mine.filter(pk=model.pk).first()
    if found is None:
        raise Missing
    check_dimension(found.dimension)
    building = EmbeddingSpace.State.BUILDING
    if _spaces(authority.organization_id).filter(state=building).exists():
        raise _under_way()
    active = find_active_space(authority.organization_id)
    if active is not None and active.digest == digest_of(found):
        raise Conflict("The index is made with this model already.", code="in_use")
    return found


def _spaces(organization_id: UUID) -> Any:
    return EmbeddingSpace.objects.filter(organization_id=organization_id)


def _under_way() -> Conflict:
    return Conflict(
        "Another change of the model is under way. Wait for its end, or cancel it.",
        code="under_way",
    )


def _count(organization_key: int) -> tuple[int, int, int]:
    """Passages in the index, different texts among them, and their tokens."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [organization_key])
        passages, texts, tokens = cursor.fetchone()
    return int(passages), int(texts), int(tokens)
