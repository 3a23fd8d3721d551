"""The connector for a folder of this machine or a bucket of an object store.

Promises: each sync names everything that is there, page by page, and can go on after any page; a
file is fetched again only when its size, date or tag changed. Files have no rights of their own:
they follow the source's grants.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any, ClassVar, Literal
from urllib.parse import quote, unquote_to_bytes

from django.conf import settings
from pydantic import BaseModel, Field, SecretStr, ValidationInfo, field_validator

from retrieval.connectors.contract import ConnectorError, Fetched, Item, Page
from retrieval.connectors.folder_stores import (
    BucketStore,
    FolderStore,
    Stat,
    Store,
    allowed_root,
)

PAGE = 200


class FolderConfig(BaseModel):
    """Where the files lie."""

    place: Literal["folder", "bucket"] = Field(
        default="folder",
        title="Kind of place",
        description="A folder of this machine, or a bucket of an S3-compatible object store.",
    )
    folder: str = Field(
        default="",
        title="Folder",
        description="The whole path. It must lie below one that the operator allows.",
        validate_default=True,
    )
    bucket: str = Field(
        default="", title="Bucket", description="The bucket's name.", validate_default=True
    )
    endpoint: str = Field(
        default="",
        title="Address of the object store",
        description="Leave empty for Amazon S3.",
    )
    region: str = Field(default="", title="Region", description="Such as eu-central-1.")
    access_key: str = Field(
        default="",
        title="Access key",
        description="One that may only read this bucket.",
        validate_default=True,
    )
    secret_key: SecretStr | None = Field(
        default=None,
        title="Secret key",
        description="The other half of the access key.",
        validate_default=True,
    )
    prefix: str = Field(
        default="",
        title="Only below",
        description="A folder within the place, such as handbook/en. Empty: all of it.",
    )
    skip: list[str] = Field(
        default=[".*", "~$*", "Thumbs.db", "desktop.ini"],
        title="Skip",
        description=(
            "One pattern a line, for a name or a whole path: * stands for anything. "
            "Files and folders that fit are left out."
        ),
    )

    @field_validator("folder")
    @classmethod
    def _check_folder(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("place") != "folder":
            return value
        if not value.startswith("/"):
            raise ValueError("Name a folder by its whole path.")
        try:
            allowed_root(value)
        except ConnectorError as error:
            # One that is absent now may come back; one outside never does.
            if not error.retry:
                raise ValueError(error.message) from error
        return value

    @field_validator("bucket", "access_key", "secret_key")
    @classmethod
    def _check_given(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("place") == "bucket" and not value:
            raise ValueError("A bucket needs this.")
        return value

    @field_validator("prefix")
    @classmethod
    def _check_prefix(cls, value: str) -> str:
        if ".." in value.split("/"):
            raise ValueError("A path can't lead upwards.")
        return value.strip("/")

    @field_validator("endpoint")
    @classmethod
    def _check_endpoint(cls, value: str) -> str:
        if value and not value.startswith(("https://", "http://")):
            raise ValueError("An address begins with https://.")
        return value


class FolderConnector:
    """Reads files."""

    slug: ClassVar[str] = "folder"
    title: ClassVar[str] = "Folder or bucket"
    description: ClassVar[str] = "Files in a folder of the server, or in an object store."
    Config: ClassVar[type[BaseModel]] = FolderConfig
    mirrors_acl: ClassVar[bool] = False

    def __init__(self, config: BaseModel) -> None:
        if not isinstance(config, FolderConfig):
            raise TypeError(type(config).__name__)
        self._config = config
        self._store = _open(config)

    def check(self) -> None:
        """Look for one file. Raises ConnectorError."""
        next(self._files(after=""), None)

    def list_changes(self, checkpoint: str | None) -> Iterator[Page]:
        """Everything there is, after the name that the checkpoint holds."""
        page: list[Item] = []
        last = ""
        after = os.fsdecode(unquote_to_bytes(checkpoint or ""))
        for found in self._files(after=after):
            if len(page) == PAGE:
                # The name stands in the checkpoint as bytes, since not every name is text.
                yield Page(changes=page, checkpoint=quote(os.fsencode(last)), is_listing=True)
                page = []
            page.append(_item(found))
            last = found.name
        yield Page(changes=page, checkpoint="", is_listing=True)

    def fetch(self, item: Item) -> Fetched | None:
        """The bytes of a file. Raises ConnectorError for one that is too large."""
        limit = settings.KAIZEN_UPLOAD_LIMIT
        prefix = self._config.prefix
        name = f"{prefix}/{item.external_id}" if prefix else item.external_id
        data = self._store.read(name, limit=limit)
        if data is None:
            return None
        if len(data) > limit:
            message = f"The file is larger than {limit // 1024 // 1024} MB."
            raise ConnectorError(message, retry=False)
        return Fetched(data)

    def close(self) -> None:
        """Nothing stays open."""

    def _files(self, *, after: str) -> Iterator[Stat]:
        for found in self._store.list_files(self._config.prefix, after=after):
            if not self._is_skipped(found.name):
                yield found

    def _is_skipped(self, name: str) -> bool:
        parts = name.split("/")
        return any(
            fnmatch(name, pattern) or any(fnmatch(part, pattern) for part in parts)
            for pattern in self._config.skip
        )


def _open(config: FolderConfig) -> Store:
    if config.place == "folder":
        return FolderStore(config.folder)
    return BucketStore(
        bucket=config.bucket,
        endpoint=config.endpoint,
        region=config.region,
        access_key=config.access_key,
        secret_key=config.secret_key.get_secret_value() if config.secret_key else "",
    )


def _item(found: Stat) -> Item:
    return Item(
        external_id=found.name,
        revision=found.revision,
        file_name=found.name.rpartition("/")[2],
        path=found.name,
        dated_at=found.modified,
    )
