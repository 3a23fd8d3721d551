"""Short texts that describe a source or a document, checked before they are stored.

Promises: what comes out can be stored and fits its column.
"""

from __future__ import annotations

from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import make_storable


def short_text(text: str, longest: int, what: str) -> str:
    """`text`, fit to store. Raises Invalid above `longest` characters."""
    storable = make_storable(text).text.strip()
    if len(storable) > longest:
        raise Invalid(f"The {what} may have at most {longest:,} characters.")
    return storable


def claimed_type(media_type: str | None) -> str:
    """What the sender said the file is; only a hint, so anything odd is dropped."""
    text = make_storable(media_type or "").text.strip()
    return text if len(text) <= 120 and text.isprintable() else ""
