"""LanceDB with rights as a filter: a label index on an int64 list of principals, a bitmap on the
tenant, and the filter applied before the search.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from protocol import read, serve

_BATCH = 20_000
# Exact over what the filter leaves, or so many cells of the vector index.
SETTINGS = ["exact", "cells 10", "cells 40", "cells 160"]


def build(folder: Path) -> Any:
    """The table with its indexes, made once."""
    database = lancedb.connect(folder / "lance")
    if (folder / "lance.done").exists():
        return database.open_table("passages")
    rows = read(folder)
    dimension = rows.vectors.shape[1]
    # With int32 the label index is silently unused.
    schema = pa.schema(
        [
            ("key", pa.int64()),
            ("tenant", pa.int64()),
            ("acl", pa.list_(pa.int64())),
            ("vector", pa.list_(pa.float32(), dimension)),
        ]
    )
    table = database.create_table("passages", schema=schema, mode="overwrite")
    for part, lists in rows.batches(_BATCH):
        flat = pa.array(np.ascontiguousarray(rows.vectors[part]).reshape(-1), pa.float32())
        table.add(
            pa.table(
                [
                    pa.array(rows.keys[part], pa.int64()),
                    pa.array(rows.tenants[part], pa.int64()),
                    pa.array(lists, pa.list_(pa.int64())),
                    pa.FixedSizeListArray.from_arrays(flat, dimension),
                ],
                schema=schema,
            )
        )
    cells = max(16, round(len(rows.keys) ** 0.5))
    table.create_index("dot", num_partitions=cells, index_type="IVF_FLAT")
    table.create_scalar_index("acl", index_type="LABEL_LIST")
    table.create_scalar_index("tenant", index_type="BITMAP")
    table.optimize()
    (folder / "lance.done").touch()
    return table


def main() -> None:
    """Build and serve."""
    table = build(Path(sys.argv[1]))

    def ask(task: dict[str, Any], vector: np.ndarray) -> list[int]:
        principals = ", ".join(map(str, task["principals"]))
        where = f"tenant = {task['tenant']} AND array_has_any(acl, [{principals}])"
        query = table.search(vector).distance_type("dot").where(where, prefilter=True)
        kind, _, cells = task["setting"].partition(" ")
        query = query.bypass_vector_index() if kind == "exact" else query.nprobes(int(cells))
        found = query.limit(task["limit"]).select(["key"]).to_arrow()
        return found["key"].to_pylist()

    serve(SETTINGS, ask)


if __name__ == "__main__":
    main()
