"""What the context window keeps and what it lets go."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.runtime.protocol import ContextItem, ItemKind
from agents.runtime.window import choose


def item(ref: str, kind: ItemKind, tokens: int) -> ContextItem:
    return ContextItem(ref=ref, kind=kind, tokens=tokens)


TALK = [
    item("u1", "user", 10),
    item("a1", "assistant", 20),
    item("u2", "user", 10),
    item("a2", "assistant", 5),
    item("t2", "tool", 50),
    item("a3", "assistant", 20),
    item("u3", "user", 10),
]


@st.composite
def talks(draw: st.DrawFn) -> list[ContextItem]:
    """Conversations as the backend sends them: tool results only after the message that asked."""
    items: list[ContextItem] = []
    tokens = st.integers(min_value=0, max_value=100)
    groups: tuple[tuple[ItemKind, ...], ...] = (
        ("user",),
        ("assistant",),
        ("summary",),
        ("assistant", "tool"),
        ("assistant", "tool", "tool", "tool"),
    )
    for kinds in draw(st.lists(st.sampled_from(groups), max_size=12)):
        items += [item(f"i{len(items) + n}", kind, draw(tokens)) for n, kind in enumerate(kinds)]
    return items


budgets = st.integers(min_value=-50, max_value=1_500)


def test_all_of_it_is_kept_when_it_fits() -> None:
    fitted = choose(items=TALK, budget=125)
    assert fitted.refs == ("u1", "a1", "u2", "a2", "t2", "a3", "u3")
    assert (fitted.tokens, fitted.over) == (125, False)


def test_the_oldest_turn_goes_first_and_whole() -> None:
    assert choose(items=TALK, budget=124).refs == ("u2", "a2", "t2", "a3", "u3")
    assert choose(items=TALK, budget=94).refs == ("u3",)


def test_a_small_old_turn_is_not_kept_over_the_gap_of_a_large_one() -> None:
    assert choose(items=TALK, budget=50).refs == ("u3",)


def test_the_current_turn_is_kept_even_when_it_is_too_large() -> None:
    fitted = choose(items=TALK, budget=9)
    assert (fitted.refs, fitted.tokens, fitted.over) == (("u3",), 10, True)


def test_a_summary_stands_for_what_is_older() -> None:
    items = [TALK[0], TALK[1], item("s", "summary", 15), *TALK[2:]]
    assert choose(items=items, budget=1_000).refs == ("s", "u2", "a2", "t2", "a3", "u3")
    assert choose(items=items, budget=30).refs == ("s", "u3")
    assert choose(items=items, budget=20).refs == ("u3",)


@settings(deadline=None)
@given(items=talks(), budget=budgets)
def test_the_current_turn_is_always_there_in_order(items: list[ContextItem], budget: int) -> None:
    users = [index for index, each in enumerate(items) if each.kind == "user"]
    tail = tuple(each.ref for each in items[users[-1] :]) if users else ()
    refs = choose(items=items, budget=budget).refs
    assert refs[len(refs) - len(tail) :] == tail
    order = [each.ref for each in items]
    assert [order.index(ref) for ref in refs] == sorted(order.index(ref) for ref in refs)


@settings(deadline=None)
@given(items=talks(), budget=budgets)
def test_the_budget_is_kept_or_the_excess_is_said(items: list[ContextItem], budget: int) -> None:
    fitted = choose(items=items, budget=budget)
    sizes = {each.ref: each.tokens for each in items}
    assert fitted.tokens == sum(sizes[ref] for ref in fitted.refs)
    assert fitted.over == (fitted.tokens > budget)


@settings(deadline=None)
@given(items=talks(), budget=budgets)
def test_a_message_and_its_results_stay_together(items: list[ContextItem], budget: int) -> None:
    kept = set(choose(items=items, budget=budget).refs)
    for before, after in pairwise(items):
        if after.kind == "tool":
            assert (before.ref in kept) == (after.ref in kept)


@settings(deadline=None)
@given(items=talks(), budget=budgets)
def test_more_room_never_keeps_less(items: list[ContextItem], budget: int) -> None:
    small = set(choose(items=items, budget=budget).refs) - _summaries(items)
    large = set(choose(items=items, budget=10_000).refs)
    assert small <= large


@settings(deadline=None)
@given(items=talks(), budget=budgets)
def test_what_was_chosen_would_be_chosen_again(items: list[ContextItem], budget: int) -> None:
    fitted = choose(items=items, budget=budget)
    chosen = [each for each in items if each.ref in fitted.refs]
    assert choose(items=chosen, budget=budget) == fitted


def _summaries(items: list[ContextItem]) -> set[str]:
    return {each.ref for each in items if each.kind == "summary"}
