"""The settings of a Git repository: where it is, who reads it, and which of its files."""

from __future__ import annotations

import re

from pydantic import BaseModel, Field, SecretStr, field_validator

from kaizen.kernel.egress import Refused, read_url
from retrieval.connectors.git_wire import not_https

_SSH = re.compile(r"(?:ssh|git\+ssh|git)://|[^/@:\s]+@[^/:\s]+:(?!//)", re.I)
_NAME = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]*")
_DOCUMENTS = ["*.md", "*.markdown", "*.txt", "*.rst", "*.adoc", "*.html", "*.htm"]
_DOCUMENTS += ["*.pdf", "*.docx", "*.pptx", "*.xlsx", "*.csv"]


class GitConfig(BaseModel):
    """Which files of which repository."""

    url: str = Field(
        title="Address",
        description="The https:// address that the repository is cloned from.",
        max_length=1000,
    )
    branch: str = Field(
        "", title="Branch", description="Empty for the default branch.", max_length=250
    )
    user: str = Field(
        "",
        title="User name",
        description="Only for servers that ask for one beside the token.",
        max_length=200,
    )
    token: SecretStr = Field(
        SecretStr(""),
        title="Access token",
        description="With the right to read this repository. Empty for a public one.",
    )
    folder: str = Field(
        "",
        title="Folder",
        description="Only files below this folder. Empty for the whole repository.",
        max_length=500,
    )
    include: list[str] = Field(
        default_factory=_DOCUMENTS.copy,
        title="Include",
        description="Only paths that match one of these patterns; * stands for anything. "
        "Empty for all files.",
        max_length=100,
    )
    exclude: list[str] = Field(
        default_factory=list,
        title="Exclude",
        description="No paths that match one of these patterns.",
        max_length=100,
    )
    largest_file_mb: int = Field(
        10, title="Largest file (MB)", description="Larger files are left out.", ge=1, le=50
    )
    largest_repository_mb: int = Field(
        500,
        title="Largest download (MB)",
        description="A sync that would have to load more fails.",
        ge=1,
        le=4000,
    )
    history: int = Field(
        50,
        title="Commits of history",
        description="How far back authors and dates of files are looked for.",
        ge=1,
        le=500,
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        value = value.strip()
        if _SSH.match(value) or not value.lower().startswith(("https://", "http://")):
            raise ValueError(not_https().message)
        if "@" in value.partition("://")[2].partition("/")[0]:
            raise ValueError("Leave user name and token out of the address: they have own fields.")
        try:
            target = read_url(value)
        except Refused:
            raise ValueError("This isn't the address of a repository.") from None
        if "?" in value or "#" in value:
            raise ValueError("Leave out what follows ? or # in the address.")
        return target.url.rstrip("/")

    @field_validator("branch")
    @classmethod
    def _check_branch(cls, value: str) -> str:
        value = value.strip().removeprefix("refs/heads/")
        if _NAME.fullmatch(value) is None or ".." in value:
            raise ValueError("No branch can have this name.")
        return value

    @field_validator("folder")
    @classmethod
    def _check_folder(cls, value: str) -> str:
        parts = [part for part in value.strip().split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ValueError("The folder must lie in the repository.")
        return "/".join(parts)
