"""Chroma with rights as a filter: `$and` of the tenant and an `$or` of `$contains` over a list of
principals.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings
from protocol import read, serve

_BATCH = 5_000
SETTINGS = ["beam 100", "beam 400", "beam 1000"]


def build(folder: Path) -> Any:
    """The collection, made once."""
    client = chromadb.PersistentClient(
        path=str(folder / "chroma"), settings=Settings(anonymized_telemetry=False)
    )
    collection = client.get_or_create_collection(
        "passages",
        configuration={"hnsw": {"space": "ip", "ef_construction": 128, "max_neighbors": 24}},
        embedding_function=None,
    )
    if (folder / "chroma.done").exists():
        return collection
    rows = read(folder)
    done = collection.count()
    for part, lists in rows.batches(_BATCH):
        if part.stop <= done:
            continue
        collection.upsert(
            ids=[str(key) for key in rows.keys[part].tolist()],
            embeddings=np.ascontiguousarray(rows.vectors[part]),
            metadatas=[
                # An empty list is refused; nobody is principal 0.
                {"tenant": tenant, "acl": acl or [0]}
                for tenant, acl in zip(rows.tenants[part].tolist(), lists, strict=True)
            ],
        )
    (folder / "chroma.done").touch()
    return collection


def main() -> None:
    """Build and serve."""
    collection = build(Path(sys.argv[1]))
    current = ""

    def ask(task: dict[str, Any], vector: np.ndarray) -> list[int]:
        nonlocal current
        if task["setting"] != current:
            current = task["setting"]
            beam = int(current.partition(" ")[2])
            collection.modify(configuration={"hnsw": {"ef_search": beam}})
        any_of = [{"acl": {"$contains": principal}} for principal in task["principals"]]
        rights = any_of[0] if len(any_of) == 1 else {"$or": any_of}
        found = collection.query(
            query_embeddings=vector[None],
            n_results=task["limit"],
            where={"$and": [{"tenant": task["tenant"]}, rights]},
            include=[],
        )
        return [int(key) for key in found["ids"][0]]

    serve(SETTINGS, ask)


if __name__ == "__main__":
    main()
