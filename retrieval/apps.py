"""The Django app `retrieval`."""

from __future__ import annotations

from django.apps import AppConfig


class RetrievalConfig(AppConfig):
    """Registers `retrieval`, and with `accounts` how rights on its objects are inherited."""

    name = "retrieval"

    def ready(self) -> None:
        # Models can be imported only now.
        from accounts.sharing import register_rule
        from retrieval.acl import visible_documents, visible_sources
        from retrieval.models import Document, Source
        from retrieval.spaces import dimension  # noqa: F401  registers its check

        register_rule(Source, visible_sources)
        register_rule(Document, visible_documents)
