"""A worker that syncs one connection of folder files, five names a page:
`python -m tests.retrieval.connectors.syncing ID`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from uuid import UUID

import django


def main() -> None:
    """Sync it to the end."""
    django.setup()
    import_module("retrieval.connectors.folder").PAGE = 5
    import_module("retrieval.connectors.sync").sync_connection(UUID(sys.argv[1]))


if __name__ == "__main__":
    main()
