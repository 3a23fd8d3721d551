"""Pushing documents over HTTP: many in one call, as a JSON list or as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema, extend_schema_field, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import Verb
from kaizen.kernel.errors import Invalid, TooLarge
from retrieval.acl import get_source
from retrieval.api import INGEST, RetrievalView
from retrieval.connectors.contract import PrincipalKind
from retrieval.push import MOST_ITEMS, Pushed, Result, push

LARGEST_BODY = 72 * 1024 * 1024
"""A file of the largest size in base64, and some room."""


class JsonParser(BaseParser):
    """A JSON list of items, or an object with the member `items`."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The items. Raises ParseError, TooLarge."""
        try:
            body = json.loads(_read(stream))
        except (ValueError, RecursionError) as error:
            raise ParseError("it is no JSON.") from error
        items = body.get("items") if isinstance(body, dict) else body
        if not isinstance(items, list):
            raise ParseError("it is a list of items, or an object with the member items.")
        return items


class JsonLinesParser(BaseParser):
    """One item a line. A line that can't be read spoils that item only."""

    media_type = "application/x-ndjson"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The items. Raises TooLarge."""
        return [_line(line) for line in _read(stream).split(b"\n") if line.strip()]


class JsonlParser(JsonLinesParser):
    """The same under its other name."""

    media_type = "application/jsonl"


class ReaderSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One reader: a person by e-mail address, a team by its name, or everyone."""

    kind = serializers.ChoiceField(choices=[kind.value for kind in PrincipalKind])
    name = serializers.CharField(required=False)


class PushItemSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One document. Left out, a member stays as it is; `text` is Markdown unless a name says
    otherwise, `content` a file in base64.
    """

    external_id = serializers.CharField(max_length=1_000)
    title = serializers.CharField(required=False, max_length=300)
    text = serializers.CharField(required=False)
    content = serializers.CharField(required=False)
    file_name = serializers.CharField(required=False)
    media_type = serializers.CharField(required=False)
    url = serializers.CharField(required=False, max_length=2_000)
    author = serializers.CharField(required=False, max_length=200)
    tags = serializers.ListField(child=serializers.CharField(max_length=60), required=False)
    dated_at = serializers.DateTimeField(required=False, allow_null=True)
    path = serializers.CharField(required=False, max_length=1_000)
    acl = serializers.JSONField(
        required=False,
        help_text='{"inherit": true}, {"readers": [{"kind", "name"}]}, or "unknown": nobody.',
    )
    deleted = serializers.BooleanField(required=False)


class PushResultSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What became of one item; `error` says why it was refused."""

    external_id = serializers.CharField(read_only=True)
    status = serializers.ChoiceField(choices=[status.value for status in Pushed], read_only=True)
    document = serializers.UUIDField(source="document_id", read_only=True, allow_null=True)
    error = serializers.SerializerMethodField()

    @extend_schema_field({"type": "object", "nullable": True})
    def get_error(self, result: Result) -> dict[str, str] | None:
        """Code and sentence, null where nothing went wrong."""
        if result.status is not Pushed.REFUSED:
            return None
        return {"code": result.code, "message": result.message}


class PushView(RetrievalView):
    """Documents of a source, many at once."""

    scopes: ClassVar = {"POST": (INGEST,)}
    parser_classes = [JsonParser, JsonLinesParser, JsonlParser]

    @extend_schema(
        operation_id="documents_push",
        request=PushItemSerializer(many=True),
        responses=inline_serializer("PushAnswer", {"results": PushResultSerializer(many=True)}),
    )
    def post(self, request: Request, source_id: UUID) -> Response:
        """Store, change and delete documents with their rights, up to 500 in one call.

        Each item is stored whole or refused by itself: the answer is 200 and holds one result an
        item, in their order. The same call again changes nothing. Setting `acl` needs manage on the
        source.
        """
        source = get_source(self.authority, source_id, Verb.CHANGE)
        items = request.data
        if not isinstance(items, list):
            raise Invalid(f"Send a list of 1 to {MOST_ITEMS} items.", code="no_items")
        results = push(self.authority, source=source, items=items)
        return Response({"results": PushResultSerializer(results, many=True).data})


def _read(stream: IO[Any]) -> bytes:
    body: bytes = stream.read(LARGEST_BODY + 1)
    if len(body) > LARGEST_BODY:
        raise TooLarge(f"A call may have at most {LARGEST_BODY // (1024 * 1024)} MB.")
    return body


def _line(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
