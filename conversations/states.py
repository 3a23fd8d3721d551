"""The six states of a run and the moves between them, in one table."""

from __future__ import annotations

from conversations.models import Run
from kaizen.kernel.errors import Conflict

State = Run.State
MOVES: dict[str, frozenset[str]] = {
    State.QUEUED: frozenset({State.RUNNING, State.CANCELLED, State.FAILED}),
    State.RUNNING: frozenset(
        {State.QUEUED, State.WAITING, State.SUCCEEDED, State.FAILED, State.CANCELLED}
    ),
    State.WAITING: frozenset({State.QUEUED, State.FAILED, State.CANCELLED}),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}


def check_move(run: Run, state: str) -> None:
    """Raise Conflict unless `run` may go to `state` from where it is."""
    if state not in MOVES[run.state]:
        raise Conflict(
            f"This run is {run.get_state_display()} and can't become {State(state).label}."
        )
