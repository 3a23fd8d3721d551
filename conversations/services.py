"""Plain changes to conversations: their title, putting them away."""

from __future__ import annotations

from django.db import transaction

from accounts.authority import Authority
from accounts.permissions import Verb
from audit.record import record
from conversations import journal
from conversations.models import Conversation
from conversations.queries import get_conversation
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import make_storable


@transaction.atomic
def rename(authority: Authority, *, conversation_id: str, title: str) -> Conversation:
    """Give a conversation another title. Raises Missing, Denied, Invalid."""
    conversation = get_conversation(authority, conversation_id, Verb.CHANGE)
    title = " ".join(make_storable(title).text.split())
    if not 1 <= len(title) <= 200:
        raise Invalid("A title has 1 to 200 characters.")
    conversation.title = title
    conversation.save(update_fields=["title"])
    journal.append(
        organization_id=conversation.organization_id,
        conversation_id=conversation.pk,
        kind="title",
        data={"title": title},
    )
    record(authority, "conversations.renamed", subject=conversation)
    return conversation


@transaction.atomic
def archive(authority: Authority, *, conversation_id: str) -> Conversation:
    """Put a conversation away: it leaves the lists and takes no more turns. Raises Missing,
    Denied.
    """
    conversation = get_conversation(authority, conversation_id, Verb.MANAGE)
    if conversation.archived_at is None:
        conversation.archived_at = now()
        conversation.save(update_fields=["archived_at"])
        record(authority, "conversations.archived", subject=conversation)
    return conversation
