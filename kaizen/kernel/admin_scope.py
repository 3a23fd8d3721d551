"""What keeps every admin page inside the caller's organisation: rows, choices, filters, lookups,
forms.

`scoped` is the one answer to "which rows"; it raises for a model that it can't place, so that a new
model can't slip through. Nothing here decides about roles: that is `kernel.admin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib.admin.filters import RelatedFieldListFilter
from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import models
from django.http import HttpRequest
from unfold.views import ChangeList

from kaizen.kernel.admin_site import authority_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

    from accounts.authority import Authority

MOST_FILTER_CHOICES = 100


def scoped(authority: Authority, model: type[models.Model]) -> models.QuerySet[Any]:
    """The rows of `model` in the caller's organisation. Raises ImproperlyConfigured when it has
    none.
    """
    rows: models.QuerySet[Any] = model._default_manager.all()
    if model is get_user_model():
        return rows.filter(memberships__organization_id=authority.organization_id)
    if model._meta.label == "accounts.Organization":
        return rows.filter(pk=authority.organization_id)
    for name in ("organization", "organization_id"):
        try:
            model._meta.get_field(name)
        except FieldDoesNotExist:
            continue
        return rows.filter(organization_id=authority.organization_id)
    raise ImproperlyConfigured(
        f"{model._meta.label} belongs to no organisation: not for the admin."
    )


class ScopedRelatedFilter(RelatedFieldListFilter):
    """A related filter whose choices are the organisation's own; at most a hundred of them."""

    def field_choices(
        self, field: Any, request: HttpRequest, model_admin: Any
    ) -> list[tuple[str, str | StrPromise]]:
        rows = scoped(authority_of(request), field.remote_field.model)
        return [(row.pk, str(row)) for row in rows.order_by("pk")[:MOST_FILTER_CHOICES]]


class OrganizationForm(forms.ModelForm):  # type: ignore[type-arg]
    """A model form that knows its organisation before it validates, so that unique names are
    checked in it.
    """

    organization_id: ClassVar[UUID]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance._state.adding and hasattr(self.instance, "organization_id"):
            self.instance.organization_id = self.organization_id

    def _get_validation_exclusions(self) -> set[str]:
        return super()._get_validation_exclusions() - {"organization"}  # type: ignore[misc]


class PublicChangeList(ChangeList):
    """A list whose rows link by the public id instead of an integer primary key."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self.pk_attname = self.model_admin.public_id


class PublicRow:
    """A row as the theme's pages see it: its `pk`, from which they build links, is the
    public id.
    """

    def __init__(self, row: models.Model, public_id: str) -> None:
        self._row = row
        self.pk = getattr(row, public_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    def __str__(self) -> str:
        return str(self._row)


class ScopedFields:
    """Choices of foreign keys and many-to-many fields, for admins and inlines alike."""

    def formfield_for_foreignkey(
        self, db_field: models.ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        kwargs.setdefault("queryset", self.choices_of(db_field, request))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)  # type: ignore[misc]

    def formfield_for_manytomany(
        self, db_field: models.ManyToManyField[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        kwargs.setdefault("queryset", self.choices_of(db_field, request))
        return super().formfield_for_manytomany(db_field, request, **kwargs)  # type: ignore[misc]

    def choices_of(self, db_field: Any, request: HttpRequest) -> models.QuerySet[Any]:
        """What a relation may point to: rows of the organisation that aren't archived."""
        model = db_field.remote_field.model
        rows = scoped(authority_of(request), model)
        if any(field.name == "archived_at" for field in model._meta.fields):
            rows = rows.filter(archived_at=None)
        return rows


def scoped_filters(model: type[models.Model], filters: Any) -> list[Any]:
    """`filters` with every plain relation shown through `ScopedRelatedFilter`."""
    result: list[Any] = []
    for item in filters:
        if isinstance(item, str) and model._meta.get_field(item).is_relation:
            result.append((item, ScopedRelatedFilter))
        else:
            result.append(item)
    return result


def allowed_lookups(filters: Any, date_hierarchy: str | None) -> frozenset[str]:
    """The query parameters a list may be filtered by: those its own filters write, and no deeper
    ones.

    Django allows a lookup on any column of the table, which would let a guess at hidden text be
    tested.
    """
    names = set()
    for item in filters:
        name = item[0] if isinstance(item, tuple | list) else item
        if isinstance(name, str):
            names |= {
                f"{name}__exact",
                f"{name}__isnull",
                f"{name}__id__exact",
                f"{name}__gte",
                f"{name}__lt",
            }
        else:
            names.add(name.parameter_name)
    if date_hierarchy:
        names |= {f"{date_hierarchy}__{part}" for part in ("year", "month", "day", "gte", "lt")}
    return frozenset(names)
