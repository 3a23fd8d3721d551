"""Plain formsets within an admin's change form: tables of things that services write, not model
rows.

A section shows what is there (with a box to remove it) and empty rows to add. It is validated and
saved with the form around it, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.forms.formsets import BaseFormSet, formset_factory
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldBooleanWidget

EMPTY_ROWS = 3
LONGEST_TABLE = 1000


class SectionForm(forms.Form):
    """One row. `row` names what is there already; it is empty in a row to add."""

    row = forms.CharField(required=False, max_length=300, widget=forms.HiddenInput)
    remove = forms.BooleanField(required=False, label=_("Remove"), widget=UnfoldBooleanWidget)

    label = ""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request
        self.label = str((self.initial or {}).get("label", ""))
        for field in self.fields.values():
            field.widget.attrs.setdefault("aria-label", str(field.label))

    def shown_fields(self) -> list[forms.BoundField]:
        """The inputs of this row: what can't change about an existing one is shown as
        text instead.
        """
        if not self.label:
            return [self[name] for name in self.fields if name not in {"row", "remove"}]
        shown = [name for name in self.fields if name not in {"row", "remove", *self.fixed}]
        return [self[name] for name in (*shown, "remove")]

    fixed: ClassVar[Sequence[str]] = ()


class SectionFormSet(BaseFormSet):  # type: ignore[type-arg]
    """The rows of a section."""

    section: type[Section]

    def save(self, request: HttpRequest, obj: Any) -> None:
        """Apply every changed row to `obj` through the section; a row that is gone by now stays
        gone.
        """
        for form in self.forms:
            if not form.initial.get("gone") and form.has_changed() and form.cleaned_data:
                self.section.apply(request, obj, form.cleaned_data)


class Section:
    """Declares a formset within a change form. Subclasses say what is there and how a row is
    applied.
    """

    prefix: ClassVar[str]
    title: ClassVar[Any]
    intro: ClassVar[Any] = ""
    columns: ClassVar[Sequence[Any]] = ()
    form: ClassVar[type[SectionForm]]

    @classmethod
    def build(cls, request: HttpRequest, obj: Any | None) -> SectionFormSet:
        """The section's formset for `obj`, or for an object that is being added."""
        initial = cls.list_rows(request, obj) if obj is not None else []
        factory = formset_factory(
            cls.form, formset=SectionFormSet, extra=EMPTY_ROWS, max_num=len(initial) + EMPTY_ROWS
        )
        factory.section = cls  # type: ignore[attr-defined]
        data: Mapping[str, Any] | None = None
        if request.method == "POST":
            data = request.POST
            if f"{cls.prefix}-TOTAL_FORMS" not in data:
                # A form sent without this table (a script, a popup) changes nothing in it.
                data = {f"{cls.prefix}-TOTAL_FORMS": "0", f"{cls.prefix}-INITIAL_FORMS": "0"}
            initial = cls._posted_rows(data, initial)
        formset = factory(
            data, prefix=cls.prefix, initial=initial, form_kwargs={"request": request}
        )
        assert isinstance(formset, SectionFormSet)  # noqa: S101  for the type checker
        return formset

    @classmethod
    def _posted_rows(
        cls, data: Mapping[str, Any], rows: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """What stood there, in the order it was posted: it may have changed since the page was
        made.
        """
        standing = {row["row"]: row for row in rows}
        posted: list[dict[str, Any]] = []
        for number in range(LONGEST_TABLE):
            name = data.get(f"{cls.prefix}-{number}-row")
            if not name:
                return posted
            posted.append(standing.get(name) or {"row": name, "label": _("gone"), "gone": True})
        return posted

    @classmethod
    def list_rows(cls, request: HttpRequest, obj: Any) -> list[dict[str, Any]]:
        """What is there: initial values of a row, with `row` and `label`."""
        raise NotImplementedError

    @classmethod
    def apply(cls, request: HttpRequest, obj: Any, values: dict[str, Any]) -> None:
        """Apply one changed row. Raises KaizenError to undo the whole form."""
        raise NotImplementedError
