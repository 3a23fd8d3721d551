"""Adding a document by its web address, for programs."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kaizen.kernel.tenancy import scope
from retrieval.acl import get_document
from retrieval.api import INGEST, RetrievalView, checked
from retrieval.serializers import DocumentSerializer
from retrieval.web.documents import add_by_url


class DocumentAddressSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """The address of a page or file on the web. The page's own title counts if none is given."""

    url = serializers.CharField(max_length=8_000)
    title = serializers.CharField(required=False, allow_blank=True, default="", max_length=300)


class DocumentByUrlView(RetrievalView):
    """Add a document by its address."""

    scopes: ClassVar = {"POST": (INGEST,)}

    @extend_schema(
        operation_id="documents_add_by_url",
        request=DocumentAddressSerializer,
        responses={201: DocumentSerializer},
    )
    def post(self, request: Request, source_id: UUID) -> Response:
        """Fetch an address and store what it gives; the same address again updates its document.

        It is read in the background: ask for the document until it is indexed or failed.
        """
        values = checked(DocumentAddressSerializer(data=request.data))
        document = add_by_url(
            self.authority, source_id=source_id, url=values["url"], title=values["title"]
        )
        with scope(self.authority):
            shown = DocumentSerializer(get_document(self.authority, document.pk)).data
        return Response(shown, status=201)


add_document_by_url = DocumentByUrlView.as_view()
# A site may take long to answer: no transaction is open meanwhile.
add_document_by_url.opens_scopes = True  # type: ignore[attr-defined]
