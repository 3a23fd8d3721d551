"""Retrieval as pages: sources, a source with its documents, a document read through its
passages.

Views are thin: parse, one or two calls, a template. What each template gets stands in its view's
docstring.
"""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.authority import Authority, Capability
from accounts.relation import parse_id
from kaizen.kernel.errors import Conflict, Invalid, KaizenError, Missing, TooLarge
from kaizen.kernel.html import plain_text_to_html
from retrieval.acl import get_document, get_governed_document, get_source
from retrieval.documents import delete_document, open_blob, retry_document, retry_failed, upload
from retrieval.downloads import as_attachment
from retrieval.live.accounts import is_live, list_accounts
from retrieval.models import Source
from retrieval.passages import DocumentView, Passage, document_view, get_passage
from retrieval.queries import (
    UNFINISHED,
    Counts,
    count_documents,
    list_documents,
    list_shared_documents,
    list_sources,
    may_change_document,
    may_change_source,
)
from retrieval.sources import create_source

_PAGE = 50
_SPAN = re.compile(r"(\d{1,7})-(\d{1,7})")


def authority_of(request: HttpRequest) -> Authority:
    """The caller, as the middleware resolved them."""
    authority: Authority = request.authority  # type: ignore[attr-defined]
    return authority


@never_cache
@require_http_methods(["GET", "POST"])
def sources_page(request: HttpRequest) -> HttpResponse:
    """`retrieval/sources.html`: sources ([SourceRow]), live ([Account] of those that are asked
    live), has_accounts (one's own are listed elsewhere), shared_documents ([Document] granted one
    by one), may_create, errors ({field: sentence}), values ({name, description}). POST name,
    description makes a source.
    """
    authority = authority_of(request)
    context: dict[str, Any] = {}
    status = 200
    if request.method == "POST":
        name, description = request.POST.get("name", ""), request.POST.get("description", "")
        values = {"name": name, "description": description}
        try:
            source = create_source(authority, name=name, description=description)
        except (Invalid, Conflict) as error:
            context, status = {"errors": {"name": error.message}, "values": values}, error.status
        else:
            return redirect("retrieval:source", source.pk)
    accounts = list_accounts(authority)
    live = [account for account in accounts if account.is_visible]
    asked_live = {account.source_id for account in live}
    context |= {
        "sources": [row for row in list_sources(authority) if row.id not in asked_live],
        "live": live,
        "has_accounts": bool(accounts),
        "shared_documents": list_shared_documents(authority),
        "may_create": authority.may(Capability.CONFIGURE),
    }
    return render(request, "retrieval/sources.html", context, status=status)


@never_cache
@require_GET
def source_page(request: HttpRequest, source_id: UUID) -> HttpResponse:
    """`retrieval/source.html`: what `_documents.html` gets, and upload_limit_mb. A live source has
    no documents: to the connected accounts.
    """
    source = get_source(authority_of(request), source_id)
    if is_live(source):
        return redirect(f"{reverse('retrieval:live')}#source-{source.pk}")
    context = _documents(request, source)
    context["upload_limit_mb"] = settings.KAIZEN_UPLOAD_LIMIT // (1024 * 1024)
    return render(request, "retrieval/source.html", context)


@never_cache
@require_GET
def documents_fragment(request: HttpRequest, source_id: UUID) -> HttpResponse:
    """`retrieval/_documents.html`: source, documents ([Document], newest first), busy, next (cursor
    or None), may_change, counts (documents, waiting, failed).
    """
    source = get_source(authority_of(request), source_id)
    return render(request, "retrieval/_documents.html", _documents(request, source))


@require_POST
def upload_files(request: HttpRequest, source_id: UUID) -> HttpResponse:
    """Store the files of the field `files`; each refused one leaves a message.

    Answers as `_back` does.
    """
    authority = authority_of(request)
    source = get_source(authority, source_id)
    refused: KaizenError | None = None
    stored = 0
    for file in request.FILES.getlist("files"):
        try:
            upload(
                authority,
                source=source,
                file_name=file.name or "",
                data=file,
                media_type=file.content_type,
            )
            stored += 1
        except (Invalid, TooLarge) as error:
            refused = error
            messages.error(request, f"{file.name or _('A file')}: {error.message}")
    if refused is not None and not stored:
        raise refused
    if not stored:
        raise Invalid(_("Choose at least one file."), code="no_file")
    return _back(request, source)


@never_cache
@require_GET
def document_page(request: HttpRequest, document_id: UUID) -> HttpResponse:
    """`retrieval/document.html`: document, source, version (DocumentVersion or None), is_current,
    passages ([{id, html, heading_path, page, marked}]), previous_start and next_start (or None),
    total, may_change.

    `?passage=` opens around a passage, of its own version, with `&span=start-end` marked in it;
    `?version=` a numbered version; `?start=` a later stretch. With `&fragment=1` it is
    `retrieval/_passage.html`: document, passage, url.
    """
    authority = authority_of(request)
    chunk_id = request.GET.get("passage") or None
    if chunk_id and request.GET.get("fragment"):
        return _passage_fragment(request, authority, document_id, chunk_id)
    view = document_view(
        authority,
        document_id=document_id,
        chunk_id=chunk_id,
        number=_number(request, "version"),
        start=_number(request, "start") or 0,
    )
    return render(request, "retrieval/document.html", _document(request, authority, view))


@require_GET
def download(request: HttpRequest, document_id: UUID) -> FileResponse:
    """The newest file of a document, as an attachment."""
    authority = authority_of(request)
    document = get_document(authority, document_id)
    return as_attachment(*open_blob(authority, document=document))


@require_POST
def retry(request: HttpRequest, document_id: UUID) -> HttpResponse:
    """Read a failed document again. Answers as `_back` does."""
    authority = authority_of(request)
    document = get_document(authority, document_id)
    retry_document(authority, document=document)
    return _back(request, document.source)


@require_POST
def retry_all(request: HttpRequest, source_id: UUID) -> HttpResponse:
    """Read all failed documents of a source again. Answers as `_back` does."""
    authority = authority_of(request)
    source = get_source(authority, source_id)
    retry_failed(authority, source=source)
    return _back(request, source)


@require_POST
def delete(request: HttpRequest, document_id: UUID) -> HttpResponse:
    """Delete a document. Answers as `_back` does."""
    authority = authority_of(request)
    document = get_governed_document(authority, document_id)
    delete_document(authority, document=document)
    return _back(request, document.source)


def _back(request: HttpRequest, source: Source) -> HttpResponse:
    """The document list for htmx, else back to the source, or to all sources where that isn't
    visible.
    """
    try:
        source = get_source(authority_of(request), source.pk)
    except Missing:
        address = reverse("retrieval:sources")
        if request.headers.get("HX-Request"):
            return HttpResponse(status=204, headers={"HX-Redirect": address})
        return HttpResponseRedirect(address)
    if request.headers.get("HX-Request"):
        return render(request, "retrieval/_documents.html", _documents(request, source))
    return redirect("retrieval:source", source.pk)


def _documents(request: HttpRequest, source: Source) -> dict[str, Any]:
    authority = authority_of(request)
    documents = list_documents(authority, source=source)
    before = request.GET.get("before")
    if before:
        documents = documents.filter(pk__lt=parse_id(before))
    rows = list(documents[: _PAGE + 1])
    counts = count_documents(authority, source=source).get(source.pk, Counts())
    return {
        "source": source,
        "documents": rows[:_PAGE],
        "busy": any(row.state in UNFINISHED for row in rows[:_PAGE]),
        "next": str(rows[_PAGE - 1].pk) if len(rows) > _PAGE else None,
        "may_change": may_change_source(authority, source),
        "counts": counts,
    }


def _document(request: HttpRequest, authority: Authority, view: DocumentView) -> dict[str, Any]:
    return {
        "document": view.document,
        "source": view.document.source,
        "version": view.version,
        "is_current": view.is_current,
        "passages": [
            _shown(passage, request, marked=passage.chunk_id == view.marked)
            for passage in view.passages
        ],
        "previous_start": view.previous_start,
        "next_start": view.next_start,
        "total": view.total,
        "may_change": may_change_document(authority, view.document),
    }


def _passage_fragment(
    request: HttpRequest, authority: Authority, document_id: UUID, chunk_id: str
) -> HttpResponse:
    passage = get_passage(authority, chunk_id)
    if passage.document_id != document_id:
        raise Missing
    url = f"{reverse('retrieval:document', args=[document_id])}?passage={passage.chunk_id}"
    context = {
        "document": {"id": passage.document_id, "title": passage.title},
        "passage": _shown(passage, request, marked=True),
        "url": url,
    }
    return render(request, "retrieval/_passage.html", context)


def _shown(passage: Passage, request: HttpRequest, *, marked: bool) -> dict[str, Any]:
    span = _SPAN.fullmatch(request.GET.get("span", "")) if marked else None
    marks = [(int(span[1]), int(span[2]))] if span else []
    return {
        "id": passage.chunk_id,
        "html": plain_text_to_html(passage.text, marks, anchor="marked"),
        "heading_path": passage.heading_path,
        "page": passage.page,
        "marked": marked,
    }


def _number(request: HttpRequest, name: str) -> int | None:
    """A whole number in the address; None when absent. Raises Missing for anything else."""
    text = request.GET.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Missing
    return int(text)
