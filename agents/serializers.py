"""What the API gives about agents."""

from __future__ import annotations

from rest_framework import serializers


class AgentSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """An agent the caller may talk to."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    description = serializers.CharField()
    tools = serializers.ListField(child=serializers.CharField())
