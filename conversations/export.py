"""A conversation as a file. Built on the reader's view, so it holds nothing they may not see
now.
"""

from __future__ import annotations

from django.utils.translation import gettext as _

from conversations.queries import ConversationView, MessageView


def as_markdown(view: ConversationView) -> str:
    """The conversation as Markdown: who said what, and the sources below each answer."""
    lines = [f"# {view.conversation.title}", ""]
    for message in view.messages:
        who = _("Question") if message.role == "user" else view.conversation.agent.name
        lines += [
            f"## {who}, {message.created_at:%Y-%m-%d %H:%M} UTC",
            "",
            message.text,
            "",
            *_sources(message),
        ]
    return "\n".join(lines)


def _sources(message: MessageView) -> list[str]:
    if not message.sources:
        return []
    lines = [f"{_('Sources')}:", ""]
    for source in message.sources:
        place = f", {_('page')} {source.page}" if source.page else ""
        lines.append(f"{source.number}. {source.title} ({source.source_name}{place})")
    return [*lines, ""]
