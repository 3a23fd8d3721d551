"""The forms of the test bench: whom to see as, a question set, a question, a file of questions.

Promises: choices are the organisation's own. Not for: rules, which `retrieval.quality.see_as` and
`retrieval.quality.questions` check.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib.admin.widgets import AutocompleteSelectMultiple
from django.core.files.uploadedfile import UploadedFile
from django.db import models
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from accounts.models import Membership, TeamMembership
from kaizen.kernel.admin import site
from kaizen.kernel.admin_scope import OrganizationForm
from kaizen.kernel.errors import KaizenError
from kaizen.kernel.text import make_storable
from retrieval.access.forms import AccessForm, autocomplete, choice
from retrieval.models import Document, Persona, Question, QuestionDocument, QuestionSet
from retrieval.quality.question_files import MOST_BYTES
from retrieval.quality.questions import MOST_DOCUMENTS, MOST_PERSONAS
from retrieval.query import LONGEST_QUERY, parse_query
from retrieval.search import Mode

LIMITS = [("10", "10"), ("50", "50")]
MODES = [
    (Mode.HYBRID.value, _("words and meaning, as members search")),
    (Mode.LEXICAL.value, _("words alone")),
    (Mode.SEMANTIC.value, _("meaning alone")),
]


class SeeAsForm(AccessForm):
    """A question, and a member to ask it as."""

    member = autocomplete(TeamMembership, "membership", _("See as"))
    query = forms.CharField(
        label=_("Question"),
        max_length=LONGEST_QUERY,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
    )
    mode = choice(_("Search by"), MODES)
    limit = choice(_("Passages"), LIMITS)

    def clean_query(self) -> str:
        """A query that can be searched."""
        return clean_question(self.cleaned_data["query"])


def clean_question(text: str) -> str:
    """The text as a search takes it. Raises ValidationError."""
    try:
        return parse_query(text).text
    except KaizenError as error:
        raise forms.ValidationError(error.message) from None


def many(
    model: type[models.Model], name: str, label: Any, **more: Any
) -> forms.ModelMultipleChoiceField[Any]:
    """Several of what the relation `model.name` points to, found by typing."""
    widget = AutocompleteSelectMultiple(model._meta.get_field(name), site)
    rows = Membership.objects.none()
    return forms.ModelMultipleChoiceField(rows, label=label, widget=widget, **more)


class QuestionSetForm(OrganizationForm):
    """A set, with the people to ask its questions as."""

    members = many(
        Persona,
        "membership",
        _("Ask as"),
        required=False,
        help_text=_("Each question is asked with the rights that each of them has at that moment."),
    )

    class Meta:
        model = QuestionSet
        fields: ClassVar = ["name", "description"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["members"]
        field.queryset = Membership.objects.filter(
            organization_id=self.organization_id
        ).select_related("user")
        if self.instance.pk and not self.instance._state.adding:
            field.initial = [
                persona.membership_id
                for persona in Persona.objects.filter(question_set=self.instance)
            ]

    def clean_members(self) -> Any:
        """Not too many."""
        members = self.cleaned_data["members"]
        if len(members) > MOST_PERSONAS:
            raise forms.ValidationError(
                _("Choose %(most)s people at most.") % {"most": MOST_PERSONAS}
            )
        return members

    def clean_description(self) -> str:
        """Fit to store."""
        return make_storable(self.cleaned_data["description"]).text


class QuestionForm(OrganizationForm):
    """A question with its documents."""

    expected = many(
        QuestionDocument,
        "document",
        _("Documents to be found"),
        required=False,
        help_text=_("They count only for those of the set's people who may view them."),
    )
    forbidden = many(
        QuestionDocument,
        "document",
        _("Documents that nobody of the set may find"),
        required=False,
        help_text=_("Counted as a leak, whatever the grants say."),
    )

    class Meta:
        model = Question
        fields: ClassVar = ["question_set", "text"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        named: dict[str, list[Any]] = {kind: [] for kind in QuestionDocument.Kind.values}
        if not self.instance._state.adding:
            rows = QuestionDocument.objects.filter(question=self.instance)
            for kind, document_id in rows.values_list("kind", "document_id"):
                named[kind].append(document_id)
        for name, document_ids in named.items():
            field: Any = self.fields[name]
            field.initial = document_ids
            field.queryset = Document.objects.filter(organization_id=self.organization_id).filter(
                models.Q(deleted_at=None) | models.Q(pk__in=document_ids)
            )

    def clean_text(self) -> str:
        """A question that can be searched."""
        return clean_question(self.cleaned_data["text"])

    def clean(self) -> dict[str, Any]:
        """No document of both kinds, not too many of one."""
        values: dict[str, Any] = super().clean() or self.cleaned_data
        expected, forbidden = (set(values.get(name) or ()) for name in ("expected", "forbidden"))
        if expected & forbidden:
            self.add_error("forbidden", _("A document can't be both expected and forbidden."))
        for name, documents in (("expected", expected), ("forbidden", forbidden)):
            if len(documents) > MOST_DOCUMENTS:
                self.add_error(
                    name, _("Choose %(most)s documents at most.") % {"most": MOST_DOCUMENTS}
                )
        return values


class ImportForm(forms.Form):
    """A file of questions."""

    file = forms.FileField(
        label=_("File"),
        help_text=_("CSV or JSON, UTF-8, 2 MiB at most."),
        widget=UnfoldAdminFileFieldWidget,
    )
    replace = forms.BooleanField(
        label=_("Take out questions that aren't in the file"),
        required=False,
        widget=UnfoldBooleanSwitchWidget,
    )

    def clean_file(self) -> bytes:
        """The file's bytes."""
        file: UploadedFile[Any] = self.cleaned_data["file"]
        if file.size is None or file.size > MOST_BYTES:
            raise forms.ValidationError(_("The file is larger than 2 MiB."))
        return file.read()
