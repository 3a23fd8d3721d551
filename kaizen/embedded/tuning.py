"""PostgreSQL's settings, sized by this machine's memory. Pure but for reading how much there is."""

from __future__ import annotations

import os
from pathlib import Path

MEGABYTE = 1024 * 1024
CONNECTIONS = 200
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  looked at, never written
CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def machine_megabytes() -> int:
    """Return the memory this process may use: the machine's, or less if its container's is."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in CGROUP_LIMITS:
        if limit.exists() and (text := limit.read_text().strip()).isdigit():
            total = min(total, int(text))
    return max(total // MEGABYTE, 256)


def has_small_shared_memory(folder: Path = SHARED_MEMORY) -> bool:
    """Say whether shared memory is as small as in containers; parallel queries fail in it."""
    if not folder.exists():
        return False
    space = os.statvfs(folder)
    return space.f_frsize * space.f_blocks < 512 * MEGABYTE


def server_settings(
    *, megabytes: int, durable: bool, small_shared_memory: bool = False
) -> dict[str, str]:
    """Return the settings for a server that shares the machine with the rest of Kaizen.

    Args:
        megabytes: memory of the machine.
        durable: False gives up surviving a crash of the machine, for tests only.
        small_shared_memory: keep parallel queries' memory in files.
    """

    def share(divisor: int, *, least: int, most: int) -> str:
        return f"{min(most, max(least, megabytes // divisor))}MB"

    settings = {
        "shared_buffers": share(8, least=64, most=2048),
        "effective_cache_size": share(2, least=128, most=16384),
        "work_mem": share(256, least=32, most=64),
        "maintenance_work_mem": share(16, least=64, most=1024),
        "max_connections": str(CONNECTIONS),
        "random_page_cost": "1.1",
        "jit": "off",
        "max_wal_size": "2GB",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "password_encryption": "scram-sha-256",
        "log_line_prefix": "%m [%p] %q%u@%d ",
    }
    if small_shared_memory:
        settings["dynamic_shared_memory_type"] = "mmap"
    if not durable:
        settings |= {
            "shared_buffers": "128MB",
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "off",
        }
    return settings
