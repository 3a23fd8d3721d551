"""The border to a connector's own code, which may raise anything.

Promises: whatever it raises arrives as a ConnectorError whose message holds nothing of it but its
kind; the log has the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from retrieval.connectors.contract import ConnectorError

logger = logging.getLogger(__name__)


@contextmanager
def guarded(slug: str) -> Iterator[None]:
    """Run foreign code. Raises ConnectorError and nothing else."""
    try:
        yield
    except ConnectorError:
        raise
    except Exception as error:
        logger.exception("the connector %s broke", slug)
        message = f"The connector broke ({type(error).__name__}); the worker's log says more."
        raise ConnectorError(message) from error
