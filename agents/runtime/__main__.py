"""`python -m agents.runtime --backend URL`: one agent runtime process.

Promises: its token comes as one line on stdin, never from the environment or the arguments; SIGTERM
and SIGINT end it with exit code 0 after its runs or the grace; it logs plain lines to stderr, ids
only.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import signal
import sys
import uuid
from urllib.parse import urlsplit

from agents.runtime.link import Link, Settings

TOKEN = re.compile(r"[\x21-\x7e]{1,512}")


def main() -> int:
    """Run until told to stop. 2 means that it was started wrongly; the reason is on stderr."""
    parser = argparse.ArgumentParser(prog="agents.runtime", description="Kaizen agent runtime")
    parser.add_argument("--backend", required=True, type=_backend, metavar="URL")
    parser.add_argument("--capacity", default=8, type=_capacity, metavar="N", help="runs at a time")
    parser.add_argument("--grace", default=10.0, type=_grace, metavar="SECONDS", help="on stopping")
    arguments = parser.parse_args()
    token = sys.stdin.readline(1024).strip()
    if not TOKEN.fullmatch(token):
        parser.error("the connection token must come as one line on stdin")
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    # The library logs whole frames and tracebacks; what matters of them is logged by the link.
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    settings = Settings(
        url=arguments.backend,
        token=token,
        runtime_id=uuid.uuid4().hex,
        capacity=arguments.capacity,
        grace_seconds=arguments.grace,
    )
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: Settings) -> None:
    link = Link(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, link.stop)
    await link.serve()


def _backend(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"ws", "wss"} or not parts.hostname or parts.username is not None:
        raise argparse.ArgumentTypeError("a ws:// or wss:// address without credentials is needed")
    return value


def _capacity(value: str) -> int:
    number = int(value)
    if not 1 <= number <= 1000:
        raise argparse.ArgumentTypeError("between 1 and 1000")
    return number


def _grace(value: str) -> float:
    seconds = float(value)
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("between 0 and 3600 seconds")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
