"""The form of a connection, made from its connector's `Config`.

Promises: pydantic is the only judge of a value, and what it says stands at its field; a secret is
never sent back, and stays as it is unless another is entered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext as _
from pydantic import BaseModel, ValidationError
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from kaizen.kernel.admin_scope import OrganizationForm
from kaizen.kernel.text import make_storable
from retrieval.connectors.fields import Field, Kind, list_fields, load_secrets
from retrieval.models import Connection

PREFIX = "config_"
FORGET = "forget_"
LONGEST_TEXT = 20_000


class ConnectionForm(OrganizationForm):
    """Interval and pace, and in subclasses the fields of one connector.

    After validation `config` is the configuration.
    """

    config_class: ClassVar[type[BaseModel] | None] = None
    config_fields: ClassVar[tuple[Field, ...]] = ()
    config: BaseModel | None = None

    class Meta:
        model = Connection
        fields: ClassVar = ["source", "interval_minutes", "requests_a_minute"]

    def clean(self) -> dict[str, Any]:
        """Let pydantic read the configuration, once every field could be read as what it is."""
        values: dict[str, Any] = super().clean() or self.cleaned_data
        if self.config_class is None or any(name.startswith(PREFIX) for name in self.errors):
            return values
        try:
            self.config = self.config_class.model_validate(dict(self._raw(values)))
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_input=False):
                self._add_problem(problem["loc"], problem["msg"])
        return values

    def _raw(self, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        stored = load_secrets(self.instance.secrets) if self.instance.pk else {}
        for field in self.config_fields:
            value = values.get(PREFIX + field.name)
            if field.kind is Kind.SECRET:
                if not value and not values.get(FORGET + field.name):
                    value = stored.get(field.name)
                if value:
                    yield field.name, value
            elif field.kind is Kind.LINES:
                lines = (line.strip() for line in (value or "").splitlines())
                yield field.name, [line for line in lines if line]
            elif value not in (None, ""):
                yield field.name, value
            elif field.optional:
                yield field.name, None
            elif field.kind is Kind.TEXT:
                yield field.name, ""

    def _add_problem(self, place: tuple[int | str, ...], message: str) -> None:
        name = f"{PREFIX}{place[0]}" if place else ""
        text = message.removeprefix("Value error, ")
        self.add_error(name if name in self.fields else None, text)


def make_form(config: type[BaseModel], connection: Connection | None) -> type[ConnectionForm]:
    """The form for one connector, showing what `connection` holds."""
    described = tuple(list_fields(config))
    opened = connection.config if connection is not None else {}
    stored = load_secrets(connection.secrets) if connection is not None else {}
    inputs: dict[str, Any] = {}
    for field in described:
        is_set = field.name in stored
        inputs[PREFIX + field.name] = _input(field, opened, is_set=is_set)
        if is_set and not field.required:
            inputs[FORGET + field.name] = forms.BooleanField(
                label=_("Forget: %s") % field.label,
                required=False,
                widget=UnfoldBooleanSwitchWidget,
            )
    members = {**inputs, "config_class": config, "config_fields": described}
    return type("ConnectorForm", (ConnectionForm,), members)


def field_names(form: type[ConnectionForm]) -> list[str]:
    """The names of a form's inputs that are the connector's."""
    return [name for name in form.base_fields if name.startswith((PREFIX, FORGET))]


def _input(field: Field, opened: dict[str, Any], *, is_set: bool) -> forms.Field:
    common: dict[str, Any] = {
        "label": field.label,
        "help_text": field.help,
        "required": field.required,
        "initial": _shown(field, opened.get(field.name, field.default)),
    }
    match field.kind:
        case Kind.TICK:
            return forms.BooleanField(
                **{**common, "required": False}, widget=UnfoldBooleanSwitchWidget
            )
        case Kind.INTEGER:
            return forms.IntegerField(**common, widget=UnfoldAdminIntegerFieldWidget)
        case Kind.NUMBER:
            return forms.FloatField(**common, widget=UnfoldAdminDecimalFieldWidget)
        case Kind.CHOICE:
            choices = [*([] if field.required else [("", "—")]), *field.choices]
            if field.default is not None and not field.optional:
                choices = list(field.choices)
            return forms.ChoiceField(**common, choices=choices, widget=UnfoldAdminSelectWidget)
        case Kind.LINES:
            return _Text(**common, widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}))
        case Kind.SECRET:
            return _secret(field, common, is_set=is_set)
        case Kind.TEXT:
            return _Text(**common, widget=UnfoldAdminTextInputWidget)


def _secret(field: Field, common: dict[str, Any], *, is_set: bool) -> forms.Field:
    kept = _("Kept encrypted and never shown.")
    if is_set:
        kept = _("Kept encrypted and never shown. Unchanged unless filled in.")
    return forms.CharField(
        label=field.label,
        help_text=f"{field.help} {kept}".strip(),
        required=field.required and not is_set,
        max_length=LONGEST_TEXT,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
    )


def _shown(field: Field, value: Any) -> Any:
    if field.kind is Kind.LINES and isinstance(value, list):
        return "\n".join(str(item) for item in value)
    return value


class _Text(forms.CharField):
    """Text that can be stored."""

    def __init__(self, **more: Any) -> None:
        super().__init__(max_length=LONGEST_TEXT, **more)

    def clean(self, value: Any) -> str:
        """The text, without what PostgreSQL can't hold."""
        return make_storable(super().clean(value)).text
