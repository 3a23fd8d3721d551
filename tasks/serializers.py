"""The API's shapes of tasks: what is sent and what is returned. No rules: `services` has them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from tasks.delegation import MOST_DAYS


class TaskInput(serializers.Serializer[Any]):
    """A task to create.

    `consent` must be true: the agent then works with the caller's rights for `days` days.
    """

    name = serializers.CharField()
    agent = serializers.UUIDField()
    prompt = serializers.CharField()
    cron = serializers.CharField(help_text="Five fields: minute, hour, day, month, weekday.")
    time_zone = serializers.CharField(help_text='For example "Europe/Amsterdam".')
    consent = serializers.BooleanField(default=False)
    days = serializers.IntegerField(default=MOST_DAYS)


class TaskChange(serializers.Serializer[Any]):
    """Fields of a task to change; the others stay. `consent` must be true, as for a new one."""

    name = serializers.CharField(required=False)
    agent = serializers.UUIDField(required=False)
    prompt = serializers.CharField(required=False)
    cron = serializers.CharField(required=False)
    time_zone = serializers.CharField(required=False)
    consent = serializers.BooleanField(default=False)
    days = serializers.IntegerField(default=MOST_DAYS)


class LastOutput(serializers.Serializer[Any]):
    """The newest occurrence of a task."""

    state = serializers.CharField()
    due_at = serializers.DateTimeField()


class TaskOutput(serializers.Serializer[Any]):
    """A task in a list."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    agent = serializers.UUIDField(source="agent.id")
    agent_name = serializers.CharField(source="agent.name")
    owner = serializers.CharField()
    prompt = serializers.CharField()
    cron = serializers.CharField()
    schedule_words = serializers.CharField(help_text="The rule, in words where it has common ones.")
    time_zone = serializers.CharField()
    state = serializers.CharField()
    next_due_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    last = LastOutput(allow_null=True)
    refusal = serializers.CharField(help_text="Why it would not run, as far as its consent goes.")


class ConsentOutput(serializers.Serializer[Any]):
    """Whether the task would run if it came due now, and why not."""

    is_live = serializers.BooleanField()
    reason = serializers.CharField()
    message = serializers.CharField()
    granted_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)


class TaskDetail(serializers.Serializer[Any]):
    """One task with its consent and its next due times."""

    task = TaskOutput()
    consent = ConsentOutput()
    next_due = serializers.ListField(child=serializers.DateTimeField())


class OccurrenceOutput(serializers.Serializer[Any]):
    """One due time of a task.

    `conversation` is null where there is none that the caller may open.
    """

    id = serializers.UUIDField()
    due_at = serializers.DateTimeField()
    state = serializers.CharField()
    reason = serializers.CharField()
    conversation = serializers.UUIDField(source="conversation_id", allow_null=True)
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
