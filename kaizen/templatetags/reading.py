"""Template tags of the reading room: icons, ages, marked text.

Promises: output is escaped or comes from the one sanitiser; dates carry their zone on hover.
Not for: queries or rules; a template shows what its view gave it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import template
from django.contrib.messages import get_messages
from django.template import Context
from django.templatetags.static import static
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext as _

from kaizen.kernel.html import plain_text_to_html

register = template.Library()


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """One drawing of the sprite, hidden from screen readers: a word always stands beside it."""
    return format_html(
        '<svg class="icon{}{}" aria-hidden="true"><use href="{}#{}"></use></svg>',
        " " if extra else "",
        extra,
        static("icons.svg"),
        name,
    )


@register.simple_tag
def age(moment: datetime | None) -> SafeString:
    """How long ago, or in how long, with the full time and zone on hover. Nothing for None."""
    if moment is None:
        return SafeString("")
    if moment > timezone.now():
        words = _("in %(span)s") % {"span": timeuntil(moment, depth=1)}
    else:
        span = timesince(moment, depth=1)
        words = _("just now") if span.startswith("0") else _("%(span)s ago") % {"span": span}
    return _time(moment, words)


@register.simple_tag
def moment(value: datetime | None) -> SafeString:
    """A date and time as one reads it, with the zone on hover. Nothing for None."""
    if value is None:
        return SafeString("")
    return _time(value, formats.date_format(timezone.localtime(value), "j M Y, H:i"))


@register.simple_tag(takes_context=True)
def notices(context: Context) -> list[Any]:
    """What the last action left to say. A page's own `messages` may be a conversation's."""
    request = context.get("request")
    return list(get_messages(request)) if request is not None else []


@register.filter
def marked(hit: Any) -> SafeString:
    """The text of a passage with its matching spans in <mark>."""
    marks: Iterable[tuple[int, int]] = getattr(hit, "marks", ())
    return plain_text_to_html(hit.text, marks)


@register.filter
def initial(name: object) -> str:
    """The first letter of a name, for its seal."""
    return str(name).strip()[:1].upper()


def _time(value: datetime, words: str) -> SafeString:
    local = timezone.localtime(value)
    full = f"{formats.date_format(local, 'j F Y, H:i')} {local.tzname()}"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', value.isoformat(timespec="seconds"), full, words
    )
