"""Keys and exact JSON."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.models import Organization
from agents.models import Agent
from kaizen.kernel.models import ExactJSONField, exact_json, uuid7
from retrieval.models import Source
from tests import factories


def test_a_uuid7_tells_its_millisecond_version_and_variant() -> None:
    before = time.time_ns() // 1_000_000
    value = uuid7()
    after = time.time_ns() // 1_000_000
    assert before <= value.int >> 80 <= after
    assert (value.version, value.variant) == (7, "specified in RFC 4122")


def test_uuid7s_sort_by_time_and_never_collide() -> None:
    values = []
    for _ in range(20):
        values.append(uuid7())
        time.sleep(0.002)
    assert values == sorted(values)
    assert len({uuid7() for _ in range(10_000)}) == 10_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.10, None, True]}, '{"b":1,"a":[1.1,null,true]}'),
        ("é🌍\u2028", '"é🌍\u2028"'),
        ("a\x00\n", '"a\\u0000\\n"'),
        ("half \ud83d", '"half \\ud83d"'),
        ({"\udc00": 10**30}, '{"\\udc00":1000000000000000000000000000000}'),
    ],
)
def test_exact_json_has_one_spelling(value: Any, text: str) -> None:
    assert exact_json(value) == text
    assert json.loads(text) == value
    text.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_lacks_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        exact_json(value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Single code points: two halves side by side would be read back as the pair they are.
    | st.text(st.characters(categories=["Lu", "Zs", "Cc", "So"]))
    | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_exact_json_reads_back_as_it_was_and_can_be_stored(value: Any) -> None:
    text = exact_json(value)
    text.encode()
    assert "\x00" not in text
    field = ExactJSONField()
    read = field.from_db_value(text, None, None)
    assert read == value
    assert exact_json(read) == text


@pytest.mark.django_db
def test_keys_come_from_one_sequence_over_all_tables() -> None:
    organization = factories.make_organization()
    source = factories.make_source(organization)
    project = factories.make_project(organization)
    keys = [
        Organization.objects.get(pk=organization.pk).key,
        Source.objects.get(pk=source.pk).key,
        type(project).objects.get(pk=project.pk).key,
    ]
    assert keys == sorted(set(keys))


@pytest.mark.django_db
def test_for_authority_gives_the_callers_organisation_only() -> None:
    one, two = (factories.make_agent(factories.make_organization()) for _ in range(2))
    member = factories.make_member(one.organization)
    found = Agent.objects.for_authority(factories.authority_of(member))
    assert list(found) == [one]
    assert two not in found
