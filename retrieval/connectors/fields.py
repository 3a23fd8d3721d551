"""A connector's pydantic `Config` seen as plain fields: which input each needs, which are secret.

Promises: nothing of a secret is in what `dump` returns as open; `load` gives back what was dumped.
Not for: drawing the inputs (`retrieval.connectors.form`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AnyUrl, BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined


class Kind(StrEnum):
    """The input that a field needs."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    TICK = "tick"
    CHOICE = "choice"
    LINES = "lines"
    SECRET = "secret"  # noqa: S105  a kind of field


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a configuration, as a form shows it."""

    name: str
    kind: Kind
    label: str
    help: str
    required: bool
    optional: bool  # None is a value of it
    default: Any = None
    choices: tuple[tuple[str, str], ...] = ()


def list_fields(config: type[BaseModel]) -> list[Field]:
    """The fields in their order. Raises TypeError for one that no input exists for."""
    return [_field(name, info) for name, info in config.model_fields.items()]


def find_unsupported(config: type[BaseModel]) -> list[str]:
    """The names of fields that no input exists for."""
    return [name for name, info in config.model_fields.items() if _kind(info.annotation) is None]


def dump(config: BaseModel) -> tuple[dict[str, Any], dict[str, str]]:
    """The open values, fit for JSON, and the secret ones."""
    secret = _secret_names(type(config))
    opened = config.model_dump(mode="json", exclude=secret)
    hidden = {}
    for name in sorted(secret):
        value = getattr(config, name)
        if value is not None:
            hidden[name] = value.get_secret_value()
    return opened, hidden


def load(config: type[BaseModel], opened: Mapping[str, Any], hidden: str) -> BaseModel:
    """The configuration from its open values and the JSON of its secret ones.

    Raises pydantic.ValidationError when the class asks for something else by now.
    """
    return config.model_validate({**opened, **load_secrets(hidden)})


def load_secrets(hidden: str) -> dict[str, str]:
    """The secret values from their JSON."""
    values: dict[str, str] = json.loads(hidden) if hidden else {}
    return values


def _secret_names(config: type[BaseModel]) -> set[str]:
    return {
        name for name, info in config.model_fields.items() if _kind(info.annotation) is Kind.SECRET
    }


def _field(name: str, info: FieldInfo) -> Field:
    kind = _kind(info.annotation)
    if kind is None:
        raise TypeError(name)
    default = info.get_default(call_default_factory=True)
    return Field(
        name=name,
        kind=kind,
        label=info.title or name.replace("_", " ").capitalize(),
        help=info.description or "",
        required=info.is_required() and kind is not Kind.TICK,
        optional=NoneType in _alternatives(info.annotation),
        default=None if default is PydanticUndefined else _plain(default),
        choices=_choices(info.annotation) if kind is Kind.CHOICE else (),
    )


def _plain(value: Any) -> Any:
    """A default as a form shows it. A secret's default is nobody's to see."""
    match value:
        case SecretStr():
            return None
        case Enum():
            return str(value.value)
        case list() | tuple() | set() | frozenset():
            return "\n".join(str(item) for item in value)
        case bool() | int() | float() | None:
            return value
        case _:
            return str(value)


def _kind(annotation: Any) -> Kind | None:  # noqa: C901  one line a type
    types = [kind for kind in _alternatives(annotation) if kind is not NoneType]
    if len(types) != 1:
        return None
    kind = types[0]
    origin = get_origin(kind)
    if origin is Literal:
        return Kind.CHOICE if all(isinstance(value, str) for value in get_args(kind)) else None
    if origin in (list, tuple, set, frozenset):
        inner = {_bare(value) for value in get_args(kind) if value is not Ellipsis}
        return Kind.LINES if inner == {str} else None
    if not isinstance(kind, type):
        return None
    if issubclass(kind, SecretStr):
        return Kind.SECRET
    if issubclass(kind, Enum):
        return Kind.CHOICE
    if issubclass(kind, bool):
        return Kind.TICK
    if issubclass(kind, int):
        return Kind.INTEGER
    if issubclass(kind, float | Decimal):
        return Kind.NUMBER
    if issubclass(kind, str | PurePath | AnyUrl):
        return Kind.TEXT
    return None


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, UnionType):
        return tuple(_bare(value) for value in get_args(annotation))
    return (_bare(annotation),)


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _choices(annotation: Any) -> tuple[tuple[str, str], ...]:
    kind = next(kind for kind in _alternatives(annotation) if kind is not NoneType)
    if get_origin(kind) is Literal:
        return tuple((value, value.replace("_", " ")) for value in get_args(kind))
    return tuple((str(item.value), str(item.name).replace("_", " ").lower()) for item in kind)
