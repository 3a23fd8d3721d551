"""Vectors as PostgreSQL writes them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def vector_literal(vector: npt.NDArray[np.float32]) -> str:
    """The text form of one vector, exact enough for half precision."""
    return "[" + ",".join([f"{value:.6f}" for value in vector.tolist()]) + "]"
