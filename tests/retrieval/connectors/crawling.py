"""A crawl as the engine would run it, and pages to crawl."""

from __future__ import annotations

from typing import Any

from retrieval.connectors.contract import Connector, ConnectorError, Item, Page
from retrieval.connectors.site_scope import WebsiteConfig
from retrieval.connectors.website import WebsiteConnector
from tests.websites import Site


def page(*links: str, title: str = "A page", head: str = "") -> str:
    anchors = "".join(f'<p><a href="{link}">on</a>' for link in links)
    return f"<html><head><title>{title}</title>{head}</head><body><h1>{title}</h1>{anchors}"


def crawler(site: Site, **config: Any) -> WebsiteConnector:
    values = {"start_urls": [f"{site.origin}/"], "delay_seconds": 0, **config}
    return WebsiteConnector(WebsiteConfig.model_validate(values))


class Sync:
    """What the engine would know after a pass."""

    def __init__(self, connector: Connector, checkpoint: str | None = None) -> None:
        self.pages: list[Page] = []
        self.bodies: dict[str, bytes] = {}
        self.error: ConnectorError | None = None
        self.checkpoint = checkpoint
        try:
            for found in connector.list_changes(checkpoint):
                self.pages.append(found)
                for item in found.changes:
                    assert isinstance(item, Item)
                    fetched = connector.fetch(item)
                    if fetched is not None:
                        self.bodies[item.external_id] = fetched.data
                self.checkpoint = found.checkpoint
        except ConnectorError as error:
            self.error = error

    @property
    def items(self) -> dict[str, Item]:
        return {
            item.external_id: item
            for found in self.pages
            for item in found.changes
            if isinstance(item, Item)
        }

    @property
    def is_listing(self) -> bool:
        return all(found.is_listing for found in self.pages)

    def paths(self) -> list[str]:
        return ["/" + item.url.partition("//")[2].partition("/")[2] for item in self.items.values()]
