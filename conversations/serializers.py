"""What the API takes and gives about conversations. Explicit, public ids only."""

from __future__ import annotations

from rest_framework import serializers


class TurnRequestSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A new turn."""

    text = serializers.CharField(max_length=100_000, trim_whitespace=False)


class NewTurnRequestSerializer(TurnRequestSerializer):
    """The first turn of a new conversation."""

    agent = serializers.UUIDField()


class TurnSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A turn that was started, or the same one again."""

    conversation = serializers.UUIDField(source="conversation.id")
    run = serializers.UUIDField(source="run.id")
    message = serializers.UUIDField(source="message.id")
    answer = serializers.UUIDField(source="run.answer_id")
    state = serializers.CharField(source="run.state")
    replayed = serializers.BooleanField()


class RunSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A run and how it went."""

    id = serializers.UUIDField()
    conversation = serializers.UUIDField(source="conversation_id")
    answer = serializers.UUIDField(source="answer_id")
    state = serializers.CharField()
    salvaged = serializers.BooleanField()
    attempt = serializers.IntegerField()
    error_code = serializers.CharField()
    error_message = serializers.CharField()
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class ConversationSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One conversation in a list."""

    id = serializers.UUIDField(read_only=True)
    title = serializers.CharField(max_length=200)
    agent = serializers.UUIDField(source="agent_id", read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    updated_at = serializers.DateTimeField(read_only=True)


class SourceSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A numbered source of an answer."""

    number = serializers.IntegerField()
    title = serializers.CharField()
    source_name = serializers.CharField()
    document = serializers.UUIDField(source="document_id")
    passage = serializers.UUIDField(source="chunk_id")
    file_name = serializers.CharField()
    heading = serializers.CharField()
    page = serializers.IntegerField(allow_null=True)
    text = serializers.CharField()


class MessageSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A message as its reader may see it now."""

    id = serializers.UUIDField()
    role = serializers.CharField()
    text = serializers.CharField()
    sources = SourceSerializer(many=True)
    withheld = serializers.BooleanField()
    run = serializers.UUIDField(source="run.id", allow_null=True, default=None)
    state = serializers.CharField(source="run.state", allow_null=True, default=None)
    salvaged = serializers.BooleanField(source="run.salvaged", allow_null=True, default=None)
    created_at = serializers.DateTimeField()


class ConversationDetailSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A whole conversation as its reader may see it now; `after` is where its events go on."""

    id = serializers.UUIDField(source="conversation.id")
    title = serializers.CharField(source="conversation.title")
    agent = serializers.UUIDField(source="conversation.agent_id")
    messages = MessageSerializer(many=True)
    active_run = RunSerializer(allow_null=True)
    ended_run = RunSerializer(allow_null=True)
    after = serializers.IntegerField()
    may_change = serializers.BooleanField()


class EventSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One event of the journal."""

    seq = serializers.IntegerField()
    kind = serializers.CharField()
    at = serializers.DateTimeField()
    run = serializers.UUIDField(allow_null=True)
    data = serializers.DictField()  # type: ignore[assignment]


class EventsSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Events after a number; ask again with the last one's."""

    events = EventSerializer(many=True)
