"""The server's settings follow the machine's memory."""

from __future__ import annotations

import pytest

from kaizen.embedded.tuning import server_settings


@pytest.mark.parametrize(
    ("megabytes", "shared_buffers", "work_mem", "maintenance_work_mem"),
    [
        (256, "64MB", "32MB", "64MB"),
        (8 * 1024, "1024MB", "32MB", "512MB"),
        (64 * 1024, "2048MB", "64MB", "1024MB"),
    ],
)
def test_memory_is_shared_out_within_bounds(
    megabytes: int, shared_buffers: str, work_mem: str, maintenance_work_mem: str
) -> None:
    settings = server_settings(megabytes=megabytes, durable=True)
    assert settings["shared_buffers"] == shared_buffers
    assert settings["work_mem"] == work_mem
    assert settings["maintenance_work_mem"] == maintenance_work_mem


def test_product_never_gives_up_durability() -> None:
    settings = server_settings(megabytes=4096, durable=True)
    assert {"fsync", "full_page_writes", "synchronous_commit"} & set(settings) == set()


def test_small_shared_memory_moves_parallel_queries_to_files() -> None:
    settings = server_settings(megabytes=4096, durable=True, small_shared_memory=True)
    assert settings["dynamic_shared_memory_type"] == "mmap"
