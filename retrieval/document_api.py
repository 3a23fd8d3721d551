"""Documents over HTTP where they change: details, place, rights, and reading failed ones again."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import Verb
from retrieval import api
from retrieval.acl import get_document, get_source
from retrieval.api import INGEST, SEARCH, RetrievalView, checked
from retrieval.details import MOST_TAGS, check_details
from retrieval.document_changes import move_document, update_document
from retrieval.documents import retry_failed, set_acl_state
from retrieval.models import Document
from retrieval.serializers import DocumentSerializer


class DocumentDetailsSerializer(DocumentSerializer):
    """A document, how far its reading is, and what describes it."""

    url = serializers.CharField(read_only=True)
    author = serializers.CharField(read_only=True)
    tags = serializers.ListField(child=serializers.CharField(), read_only=True)
    dated_at = serializers.DateTimeField(read_only=True, allow_null=True)
    acl_state = serializers.ChoiceField(choices=Document.AclState.choices, read_only=True)


class DocumentChangeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What may be changed about a document; what is left out stays."""

    title = serializers.CharField(required=False, allow_blank=True, max_length=300)
    path = serializers.CharField(required=False, allow_blank=True, max_length=1_000)
    url = serializers.CharField(required=False, allow_blank=True, max_length=2_000)
    author = serializers.CharField(required=False, allow_blank=True, max_length=200)
    tags = serializers.ListField(
        child=serializers.CharField(max_length=60), required=False, max_length=MOST_TAGS
    )
    dated_at = serializers.DateTimeField(required=False, allow_null=True)
    source = serializers.UUIDField(required=False)  # type: ignore[assignment]
    acl_state = serializers.ChoiceField(choices=Document.AclState.choices, required=False)


class RetriedSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """How many documents are read again."""

    retried = serializers.IntegerField(read_only=True)


class DocumentView(api.DocumentView):
    """One document."""

    scopes: ClassVar = {"GET": (SEARCH, INGEST), "PATCH": (INGEST,), "DELETE": (INGEST,)}

    @extend_schema(operation_id="documents_read", responses=DocumentDetailsSerializer)
    def get(self, request: Request, document_id: UUID) -> Response:
        """Show a document and how far its reading is."""
        document = get_document(self.authority, document_id)
        return Response(DocumentDetailsSerializer(document).data)

    @extend_schema(
        operation_id="documents_change",
        request=DocumentChangeSerializer,
        responses=DocumentDetailsSerializer,
    )
    def patch(self, request: Request, document_id: UUID) -> Response:
        """Change what describes a document, move it to another source, or say whom it follows.

        Moving needs change on both sources; `acl_state` needs manage. Who may no longer see the
        document afterwards is answered 404.
        """
        document = get_document(self.authority, document_id, Verb.CHANGE)
        values = checked(DocumentChangeSerializer(data=request.data))
        if "source" in values:
            target = get_source(self.authority, values["source"], Verb.CHANGE)
            move_document(self.authority, document=document, source=target)
        details = check_details(values)
        if details:
            update_document(self.authority, document=document, details=details)
        if "acl_state" in values:
            state = Document.AclState(values["acl_state"])
            document = set_acl_state(self.authority, document=document, state=state)
        if document.acl_state == Document.AclState.UNKNOWN:
            return Response(status=204)
        document = get_document(self.authority, document_id)
        return Response(DocumentDetailsSerializer(document).data)


class SourceRetryView(RetrievalView):
    """The failed documents of a source."""

    scopes: ClassVar = {"POST": (INGEST,)}

    @extend_schema(
        operation_id="documents_retry_failed", request=None, responses={202: RetriedSerializer}
    )
    def post(self, request: Request, source_id: UUID) -> Response:
        """Read every document of a source that failed once more."""
        source = get_source(self.authority, source_id, Verb.CHANGE)
        retried = retry_failed(self.authority, source=source)
        return Response({"retried": retried}, status=202)
