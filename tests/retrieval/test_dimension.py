"""The length of vectors is the same in the column, in the code and in the spaces, or the start says
so.
"""

from __future__ import annotations

import pytest
from django.core.checks import Error
from django.db import connection

from kaizen.kernel.errors import Invalid
from retrieval.models import EmbeddingSpace
from retrieval.spaces.dimension import check_dimension, check_vectors, find_mismatches
from tests.retrieval.conftest import Library

pytestmark = pytest.mark.django_db


def test_a_migrated_database_fits(library: Library) -> None:
    library.add("# One\n\nText.")
    assert find_mismatches(connection) == []
    assert check_vectors(None, databases=["default"]) == []


def test_a_column_of_another_length_is_said_with_what_to_do(library: Library) -> None:
    library.add("# One\n\nText.")
    with connection.cursor() as cursor:
        # Temporary tables come first in the search path.
        cursor.execute("CREATE TEMPORARY TABLE retrieval_vector (embedding halfvec(768))")
    assert find_mismatches(connection) == [
        "The column retrieval_vector.embedding holds vectors of 768 numbers and this version of "
        "Kaizen writes 384. Install the version that the database belongs to.",
        "The built-in embedding model has 384 numbers and the column 768.",
        "The embedding space of all-MiniLM-L6-v2-int8 is of 384 numbers and the column of 768. "
        "Change the model in the admin.",
    ]


def test_a_space_of_another_length_is_an_error_of_djangos_check(library: Library) -> None:
    space = {"organization": library.organization, "digest": "d", "dimension": 768}
    EmbeddingSpace.objects.create(**space, model="gone", state="retired")
    assert check_vectors(None, databases=["default"]) == []
    EmbeddingSpace.objects.create(**space, model="big", state="building")
    text = (
        "The embedding space of big is of 768 numbers and the column of 384. Change the model in "
        "the admin."
    )
    assert check_vectors(None, databases=["default"]) == [Error(text, id="retrieval.E001")]
    assert check_vectors(None) == []


def test_a_database_that_is_not_migrated_yet_has_nothing_to_compare() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path = pg_catalog")
    assert find_mismatches(connection) == []


def test_a_model_of_another_length_is_refused() -> None:
    check_dimension(384)
    with pytest.raises(Invalid, match=r"768 numbers.*holds 384") as refused:
        check_dimension(768)
    assert refused.value.code == "wrong_dimension"
