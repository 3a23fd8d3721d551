"""A document from a web address: fetched through the one door out, stored as an upload.

Promises: the same address is the same document, fetched again; nothing is fetched before the
caller's right to add it is proven, and no transaction is open while it is. Not for: whole sites
and feeds (`retrieval.connectors`).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from accounts.authority import Authority
from accounts.permissions import Verb
from kaizen.kernel.egress import INTERNET, Network, Reply, fetch
from kaizen.kernel.errors import Invalid, Unavailable
from kaizen.kernel.tenancy import scope
from retrieval.acl import get_source
from retrieval.documents import upload
from retrieval.models import Document, Source
from retrieval.web.address import file_name_of, normal_url, path_of

FETCH_SECONDS = 30.0
LONGEST_ADDRESS = 1_000


@dataclass(frozen=True, slots=True)
class WebPage:
    """What an address gave. `url` is the address asked for, in its one spelling."""

    url: str
    file_name: str
    media_type: str
    data: bytes


def add_by_url(
    authority: Authority,
    *,
    source_id: UUID,
    url: str,
    title: str = "",
    network: Network = INTERNET,
) -> Document:
    """Fetch an address and store it in a source, to be read at once by a worker.

    Opens its own transactions: call it outside of one. Raises Missing, Denied; Refused for an
    address that may not be fetched; Invalid, TooLarge, Unavailable for what the site answers.
    """
    with scope(authority):
        source = get_source(authority, source_id, Verb.CHANGE)
    page = fetch_page(url, network=network)
    with scope(authority):
        return _store(authority, source, page, title=title)


def fetch_page(url: str, *, network: Network = INTERNET) -> WebPage:
    """What an address gives now. Raises Refused, Invalid, TooLarge, Unavailable."""
    address = normal_url(url)
    if len(address) > LONGEST_ADDRESS:
        raise Invalid(f"An address may have at most {LONGEST_ADDRESS:,} characters.")
    reply = fetch(
        address,
        headers={"Accept": "text/html, application/pdf;q=0.9, */*;q=0.8"},
        max_bytes=settings.KAIZEN_UPLOAD_LIMIT,
        timeout=FETCH_SECONDS,
        network=network,
    )
    _check(reply)
    media_type = reply.headers.get("content-type", "")
    return WebPage(address, file_name_of(reply.url, media_type), media_type, reply.body)


def _check(reply: Reply) -> None:
    """Raise unless a site gave a document."""
    status = reply.status
    if status in (401, 403, 407):
        raise Invalid(
            f"The site wants a sign-in or lets nobody read this (status {status}).",
            code="site_refuses",
        )
    if status in (404, 410):
        raise Invalid(f"The site has nothing at that address (status {status}).", code="not_there")
    if status == 429 or status >= 500:
        raise Unavailable(
            f"The site can't answer just now (status {status}). Try again later.",
            retry_after=60,
            code="site_fails",
        )
    if not 200 <= status < 300:
        raise Invalid(f"The site gives no document (status {status}).", code="no_document")
    if not reply.body.strip():
        raise Invalid("The site gives an empty page.", code="no_document")


def _store(authority: Authority, source: Source, page: WebPage, *, title: str) -> Document:
    document = upload(
        authority,
        source=source,
        file_name=page.file_name,
        data=page.data,
        title=title,
        external_id=page.url,
        path=path_of(page.url)[:1000],
        media_type=page.media_type,
    )
    if document.url != page.url:
        document.url = page.url
        document.save(update_fields=["url"])
    return document
