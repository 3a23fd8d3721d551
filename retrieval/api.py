"""Retrieval over HTTP for programs: thin views, one service or query each.

Keys need the scope `search` to read, `ingest` to add and remove documents, `admin` to configure
sources.
"""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar
from uuid import UUID

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from accounts.models import ApiKey, Project
from accounts.permissions import Verb
from accounts.relation import get as get_granted
from accounts.services import remember
from kaizen.kernel.api import AuthorityView, KeysetPagination, request_digest
from kaizen.kernel.errors import Denied
from retrieval.acl import (
    get_document,
    get_governed_document,
    get_source,
    visible_sources,
)
from retrieval.documents import delete_document, open_blob, retry_document, upload
from retrieval.downloads import as_attachment
from retrieval.passages import document_view, get_passage
from retrieval.queries import list_documents
from retrieval.query import Filters
from retrieval.search import Mode, search
from retrieval.serializers import (
    DocumentSerializer,
    NewSourceSerializer,
    PassagePageQuerySerializer,
    PassagePageSerializer,
    PassageSerializer,
    SearchQuerySerializer,
    SearchResultSerializer,
    SourceChangeSerializer,
    SourceSerializer,
    UploadSerializer,
)
from retrieval.sources import archive_source, create_source, move_source, update_source

SEARCH, INGEST, ADMIN = ApiKey.Scope.SEARCH, ApiKey.Scope.INGEST, ApiKey.Scope.ADMIN
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="A repeat with the same key and body is answered with the first one's result.",
)


class RetrievalView(AuthorityView):
    """Base of these views: any one of a method's scopes opens it to a key."""

    scopes: ClassVar[dict[str, tuple[str, ...]]] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        wanted = self.scopes.get(request.method or "", (SEARCH,))
        held = self.authority.scopes
        if held is not None and not held.intersection(wanted):
            raise Denied(f"This API key lacks the scope {wanted[0]!r}.", code="scope")

    def page(self, rows: Any, serializer: type[Serializer[Any]]) -> Response:
        """One keyset page of a queryset."""
        paginator = KeysetPagination()
        found: list[Any] | None = paginator.paginate_queryset(rows, self.request, view=self)
        return paginator.get_paginated_response(serializer(found, many=True).data)

    def project(self, project_id: UUID | None) -> Project | None:
        """The project to put a source into. Raises Missing and Denied."""
        if project_id is None:
            return None
        return get_granted(self.authority, Project, project_id, Verb.CHANGE)


def checked(serializer: Serializer[Any]) -> dict[str, Any]:
    """The validated values. Raises DRF's ValidationError."""
    serializer.is_valid(raise_exception=True)
    values: dict[str, Any] = serializer.validated_data
    return values


class SourcesView(RetrievalView):
    """The sources that the caller may view."""

    pagination_class = KeysetPagination
    scopes: ClassVar = {"GET": (SEARCH, INGEST, ADMIN), "POST": (ADMIN,)}

    @extend_schema(operation_id="sources_list", responses=SourceSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the sources that you may view, newest first."""
        return self.page(visible_sources(self.authority), SourceSerializer)

    @extend_schema(
        operation_id="sources_create",
        request=NewSourceSerializer,
        responses={201: SourceSerializer},
    )
    def post(self, request: Request) -> Response:
        """Make a source that you manage; nobody else sees it until it is granted."""
        values = checked(NewSourceSerializer(data=request.data))
        source = create_source(
            self.authority,
            name=values["name"],
            description=values["description"],
            project=self.project(values["project"]),
        )
        return Response(SourceSerializer(source).data, status=201)


class SourceView(RetrievalView):
    """One source."""

    scopes: ClassVar = {"GET": (SEARCH, INGEST, ADMIN), "PATCH": (ADMIN,), "DELETE": (ADMIN,)}

    @extend_schema(operation_id="sources_read", responses=SourceSerializer)
    def get(self, request: Request, source_id: UUID) -> Response:
        """Show a source."""
        return Response(SourceSerializer(get_source(self.authority, source_id)).data)

    @extend_schema(
        operation_id="sources_change", request=SourceChangeSerializer, responses=SourceSerializer
    )
    def patch(self, request: Request, source_id: UUID) -> Response:
        """Rename a source, describe it, or put it into a project."""
        source = get_source(self.authority, source_id)
        values = checked(SourceChangeSerializer(data=request.data))
        if "project" in values:
            project = self.project(values["project"])
            source = move_source(self.authority, source=source, project=project)
        if "name" in values or "description" in values:
            source = update_source(
                self.authority,
                source=source,
                name=values.get("name"),
                description=values.get("description"),
            )
        return Response(SourceSerializer(source).data)

    @extend_schema(operation_id="sources_archive", responses={204: None})
    def delete(self, request: Request, source_id: UUID) -> Response:
        """Archive a source: it and its documents are gone from everybody's sight, nothing is
        removed.
        """
        archive_source(self.authority, source=get_source(self.authority, source_id))
        return Response(status=204)


class SourceDocumentsView(RetrievalView):
    """The documents of a source."""

    pagination_class = KeysetPagination
    scopes: ClassVar = {"GET": (SEARCH, INGEST), "POST": (INGEST,)}
    parser_classes = [MultiPartParser]

    @extend_schema(operation_id="documents_list", responses=DocumentSerializer(many=True))
    def get(self, request: Request, source_id: UUID) -> Response:
        """List the documents of a source that you may view, newest first."""
        source = get_source(self.authority, source_id)
        documents = list_documents(self.authority, source=source).select_related("current_version")
        return self.page(documents, DocumentSerializer)

    @extend_schema(
        operation_id="documents_upload",
        parameters=[IDEMPOTENCY_KEY],
        request={"multipart/form-data": UploadSerializer},
        responses={201: DocumentSerializer},
    )
    def post(self, request: Request, source_id: UUID) -> Response:
        """Upload a file.

        It is read in the background: ask for the document until it is indexed or failed.
        """
        source = get_source(self.authority, source_id, Verb.CHANGE)
        values = checked(UploadSerializer(data=request.data))
        file = values["file"]

        def make() -> UUID:
            return upload(
                self.authority,
                source=source,
                file_name=file.name,
                data=file,
                title=values["title"],
                external_id=values["external_id"],
                media_type=file.content_type,
            ).pk

        key = request.headers.get("Idempotency-Key")
        if key is None:
            document_id = make()
        else:
            content = hashlib.sha256(file.read()).hexdigest()
            parts = [str(source.pk), file.name, values["title"], values["external_id"], content]
            document_id, _ = remember(
                self.authority,
                route="documents.upload",
                key=key,
                digest=request_digest(parts),
                make=make,
            )
        return Response(
            DocumentSerializer(get_document(self.authority, document_id)).data, status=201
        )


class DocumentView(RetrievalView):
    """One document."""

    scopes: ClassVar = {"GET": (SEARCH, INGEST), "DELETE": (INGEST,)}

    @extend_schema(operation_id="documents_read", responses=DocumentSerializer)
    def get(self, request: Request, document_id: UUID) -> Response:
        """Show a document and how far its reading is."""
        document = get_document(self.authority, document_id)
        return Response(DocumentSerializer(document).data)

    @extend_schema(operation_id="documents_delete", responses={204: None})
    def delete(self, request: Request, document_id: UUID) -> Response:
        """Delete a document; it is gone from the next search."""
        document = get_governed_document(self.authority, document_id)
        delete_document(self.authority, document=document)
        return Response(status=204)


class DocumentRetryView(RetrievalView):
    """Read a failed document once more."""

    scopes: ClassVar = {"POST": (INGEST,)}

    @extend_schema(
        operation_id="documents_retry", request=None, responses={202: DocumentSerializer}
    )
    def post(self, request: Request, document_id: UUID) -> Response:
        """Read a document that failed once more."""
        document = get_document(self.authority, document_id)
        document = retry_document(self.authority, document=document)
        return Response(DocumentSerializer(document).data, status=202)


class DocumentContentView(RetrievalView):
    """The bytes of a document."""

    @extend_schema(
        operation_id="documents_content",
        responses={(200, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY)},
    )
    def get(self, request: Request, document_id: UUID) -> FileResponse:
        """Download the newest file of a document, always as an attachment."""
        document = get_document(self.authority, document_id)
        return as_attachment(*open_blob(self.authority, document=document))


class DocumentPassagesView(RetrievalView):
    """The text of a document."""

    @extend_schema(
        operation_id="documents_passages",
        parameters=[PassagePageQuerySerializer],
        responses=PassagePageSerializer,
    )
    def get(self, request: Request, document_id: UUID) -> Response:
        """Read the passages of a document's searched version, in order."""
        values = checked(PassagePageQuerySerializer(data=request.query_params))
        view = document_view(self.authority, document_id=document_id, start=values["start"])
        return Response(PassagePageSerializer(view).data)


class PassageView(RetrievalView):
    """One passage."""

    @extend_schema(operation_id="passages_read", responses=PassageSerializer)
    def get(self, request: Request, passage_id: UUID) -> Response:
        """Open a passage, of an earlier version too while its document is visible to you."""
        return Response(PassageSerializer(get_passage(self.authority, passage_id)).data)


class SearchView(RetrievalView):
    """Search."""

    @extend_schema(
        operation_id="search", parameters=[SearchQuerySerializer], responses=SearchResultSerializer
    )
    def get(self, request: Request) -> Response:
        """Find the passages that fit a question best among those you may view."""
        values = checked(SearchQuerySerializer(data=request.query_params))
        result = search(
            self.authority,
            query=values["q"],
            limit=values["limit"],
            mode=Mode(values["mode"]),
            filters=Filters(
                source_ids=tuple(values["source"]) if "source" in values else None,
                types=tuple(values.get("type", ())),
                authors=tuple(values.get("author", ())),
                tags=tuple(values.get("tag", ())),
                after=values.get("after"),
                before=values.get("before"),
            ),
            recency=values["recency"],
            facets=values["facets"],
        )
        return Response(SearchResultSerializer(result).data, headers={"Cache-Control": "no-store"})
