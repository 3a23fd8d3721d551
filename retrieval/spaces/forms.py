"""The admin's forms of embedding and rerank models.

Promises: a key is written and never sent back; an address and a size that can't be used are refused
at their field; what a space's vectors follow from can't change under it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import (
    UnfoldAdminPasswordWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from kaizen.kernel.admin_scope import OrganizationForm
from kaizen.kernel.egress import Refused, read_url
from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import make_storable
from retrieval.embedders.choice import digest_of
from retrieval.embedders.contract import DIMENSION
from retrieval.embedders.local import LocalEmbedder
from retrieval.models import EmbeddingModel, RerankModel
from retrieval.spaces.changes import is_in_use
from retrieval.spaces.dimension import check_dimension

# What the vectors follow from.
_FOLLOWED = (
    "kind",
    "name",
    "base_url",
    "dimension",
    "sizing",
    "query_prefix",
    "passage_prefix",
)


class KeyForm(OrganizationForm):
    """A form of a model at a provider."""

    new_api_key = forms.CharField(
        label=gettext_lazy("API key"),
        required=False,
        max_length=1024,
        help_text=gettext_lazy(
            "Kept encrypted and never shown. Leave empty to keep the present one."
        ),
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
    )
    forget_api_key = forms.BooleanField(
        label=gettext_lazy("Forget the present key"),
        required=False,
        widget=UnfoldBooleanSwitchWidget,
    )

    def clean_new_api_key(self) -> str:
        """A key that can stand in a header."""
        key = str(self.cleaned_data["new_api_key"]).strip()
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise ValidationError(_("A key holds no spaces and no characters outside of ASCII."))
        return key

    def clean_base_url(self) -> str:
        """An address that could be asked, without a slash at its end."""
        url = make_storable(self.cleaned_data["base_url"]).text.strip().rstrip("/")
        if not url:
            return ""
        try:
            read_url(url)
        except Refused as error:
            raise ValidationError(error.message) from None
        return url


class EmbeddingModelForm(KeyForm):
    """An embedding model."""

    # Spaces at the ends belong to them.
    query_prefix = forms.CharField(
        label=gettext_lazy("put before a query"),
        required=False,
        max_length=200,
        strip=False,
        help_text=gettext_lazy("Some models want “query: ”. Spaces count."),
        widget=UnfoldAdminTextInputWidget,
    )
    passage_prefix = forms.CharField(
        label=gettext_lazy("put before a passage"),
        required=False,
        max_length=200,
        strip=False,
        help_text=gettext_lazy("Some models want “passage: ”. Spaces count."),
        widget=UnfoldAdminTextInputWidget,
    )

    class Meta:
        model = EmbeddingModel
        fields: ClassVar = [
            "label",
            "kind",
            "name",
            "base_url",
            "dimension",
            "sizing",
            "query_prefix",
            "passage_prefix",
            "batch",
            "price",
        ]

    def _get_validation_exclusions(self) -> set[str]:
        """Two models of one digest are an error on the form, once there is a digest."""
        excluded = super()._get_validation_exclusions()
        return excluded - {"digest"} if self.instance.digest else excluded

    def clean_dimension(self) -> int:
        """A size that the index can hold."""
        dimension = int(self.cleaned_data["dimension"])
        try:
            check_dimension(dimension)
        except Invalid as error:
            raise ValidationError(error.message) from None
        return dimension

    def clean(self) -> dict[str, Any]:
        """What each kind needs, and that nothing changes under a space."""
        values: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return values
        if values["kind"] == EmbeddingModel.Kind.LOCAL:
            values |= _of_the_built_in_model()
        for name in ("name", "base_url"):
            if values["kind"] == EmbeddingModel.Kind.COMPATIBLE and not values[name]:
                self.add_error(name, _("This kind of model needs it."))
        if self.errors:
            return values
        before = self.instance.digest
        digest = digest_of(EmbeddingModel(**{name: values[name] for name in _FOLLOWED}))
        if self.instance.pk and before and digest != before and is_in_use(self.instance):
            raise ValidationError(
                _(
                    "The index is made with this model, so only its name shown, key, price and "
                    "texts in one request can change. Add another model and change over to it."
                )
            )
        self.instance.digest = digest
        return values


def _of_the_built_in_model() -> dict[str, Any]:
    return {
        "name": LocalEmbedder.model,
        "base_url": "",
        "dimension": DIMENSION,
        "sizing": EmbeddingModel.Sizing.OWN,
        "query_prefix": "",
        "passage_prefix": "",
        "price": 0,
    }


class RerankModelForm(KeyForm):
    """A rerank model."""

    class Meta:
        model = RerankModel
        fields: ClassVar = ["label", "wire", "name", "base_url", "seconds", "enabled"]

    def clean(self) -> dict[str, Any]:
        """Most servers want to be told which model."""
        values: dict[str, Any] = super().clean() or self.cleaned_data
        if values.get("wire") == RerankModel.Wire.DOCUMENTS and not values.get("name"):
            self.add_error("name", _("This protocol needs it."))
        return values
