"""A server of vectors and scores, true to the wire of `/v1/embeddings` and `/rerank`.

Its vectors are sums of one fixed random direction a word, so that texts with words in common are
near. It records every request, refuses what a provider would refuse, and fails where it is told to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np


@dataclass(slots=True, kw_only=True)
class Failure:
    """One answer that isn't the one asked for."""

    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b'{"error": {"message": "overloaded"}}'


@dataclass(slots=True, kw_only=True)
class Asked:
    """One request."""

    path: str
    key: str
    json: dict[str, Any]
    at: float


class VectorServer:
    """What the tests set and read.

    Attributes:
        size: numbers in the model's own vectors.
        takes_dimensions: whether `dimensions` is honoured; else it is a refused parameter.
        longest: words a text may have; longer ones are refused, as servers without truncation do.
        delay: seconds before each answer.
        seed: of the directions; another one is another model.
        key: the only one accepted, unless empty.
    """

    def __init__(self) -> None:
        self.size = 384
        self.takes_dimensions = True
        self.longest = 8_000
        self.delay = 0.0
        self.seed = 1
        self.key = ""
        self.is_shuffled = True
        self.answer: Any = None
        self.scores: Callable[[list[str]], list[float]] | None = None
        self.failures: deque[Failure] = deque()
        self.requests: list[Asked] = []
        self.port = 0

    @property
    def url(self) -> str:
        """The base address of both."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def allowed(self) -> str:
        """What an operator adds to KAIZEN_EGRESS_ALLOW."""
        return f"127.0.0.1:{self.port}"

    @property
    def texts(self) -> Counter[str]:
        """How often each text was to be embedded."""
        asked = [asked.json["input"] for asked in self.requests if "input" in asked.json]
        return Counter(text for texts in asked for text in texts)

    def reply(self, asked: Asked) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body."""
        self.requests.append(asked)
        time.sleep(self.delay)
        if self.key and asked.key != self.key:
            return _error(401, f"Incorrect API key provided: {asked.key}")
        if self.failures:
            failure = self.failures.popleft()
            return failure.status, failure.headers, failure.body
        if self.answer is not None:
            return 200, {}, json.dumps(self.answer).encode()
        if asked.path == "/v1/embeddings":
            return self._embed(asked.json)
        if asked.path == "/v1/rerank":
            return self._rerank(asked.json)
        return _error(404, "no such route")

    def _embed(self, asked: dict[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        unknown = set(asked) - {"model", "input", "dimensions"}
        texts = asked.get("input")
        if unknown or not isinstance(texts, list) or not texts or not asked.get("model"):
            return _error(400, f"bad request: {sorted(unknown)}")
        size = asked.get("dimensions", self.size)
        if ("dimensions" in asked and not self.takes_dimensions) or size > self.size:
            return _error(400, "this model does not support the parameter dimensions")
        if any(len(text.split()) > self.longest for text in texts):
            return _error(400, f"maximum context length is {self.longest} tokens")
        data = [
            {"object": "embedding", "index": at, "embedding": self.vector(text)[:size].tolist()}
            for at, text in enumerate(texts)
        ]
        if self.is_shuffled:
            data.reverse()
        tokens = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        body = {"object": "list", "data": data, "model": asked["model"], "usage": usage}
        return 200, {}, json.dumps(body).encode()

    def _rerank(self, asked: dict[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        query, is_tei = asked.get("query"), "texts" in asked
        texts = asked.get("texts") if is_tei else asked.get("documents")
        if not isinstance(query, str) or not isinstance(texts, list) or not texts:
            return _error(422, "query and documents are needed")
        if self.scores is not None:
            scores = self.scores(texts)
        else:
            scores = [float(self.vector(query) @ self.vector(text)) for text in texts]
        order = sorted(range(len(texts)), key=lambda at: -scores[at])
        name = "score" if is_tei else "relevance_score"
        results = [{"index": at, name: scores[at]} for at in order]
        return 200, {}, json.dumps(results if is_tei else {"results": results}).encode()

    def vector(self, text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Not normalised, as some servers' aren't."""
        total = np.zeros(self.size)
        for word in re.findall(r"\w+", text.lower()):
            digest = hashlib.blake2b(f"{self.seed} {word}".encode(), digest_size=8).digest()
            random = np.random.default_rng(int.from_bytes(digest, "big"))
            total += random.standard_normal(self.size)
        return total if total.any() else np.ones(self.size)


def _error(status: int, message: str) -> tuple[int, Mapping[str, str], bytes]:
    return status, {}, json.dumps({"error": {"message": message}}).encode()


@contextmanager
def serve_vectors() -> Iterator[VectorServer]:
    """A running server on threads of its own."""
    state = VectorServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            key = self.headers.get("authorization", "").removeprefix("Bearer ")
            asked = Asked(path=self.path, key=key, json=json.loads(body), at=time.monotonic())
            status, headers, data = state.reply(asked)
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # a client that lost its patience
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, name="vector-server", daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def normalised(rows: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Rows of length one."""
    vectors = np.asarray(rows, dtype=np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
