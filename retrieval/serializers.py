"""The API's shapes: every member stated, read from models and values, nothing copied by default."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from retrieval.media import KINDS, kind_of
from retrieval.models import Document
from retrieval.query import LONGEST_QUERY
from retrieval.search import MOST_HITS, Hit, Mode


# An answer's cited sources are called `Source` in the schema already.
@extend_schema_serializer(component_name="LibrarySource")
class SourceSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A source."""

    id = serializers.UUIDField(read_only=True)
    name = serializers.CharField(read_only=True)
    description = serializers.CharField(read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)


class NewSourceSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What a source is made from."""

    name = serializers.CharField(max_length=120)
    description = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=4_000
    )
    project = serializers.UUIDField(required=False, allow_null=True, default=None)


class SourceChangeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What may be changed about a source; what is left out stays."""

    name = serializers.CharField(required=False, max_length=120)
    description = serializers.CharField(required=False, allow_blank=True, max_length=4_000)
    project = serializers.UUIDField(required=False, allow_null=True)


class DocumentSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A document and how far its reading is."""

    id = serializers.UUIDField(read_only=True)
    source = serializers.UUIDField(source="source_id", read_only=True)  # type: ignore[assignment]
    title = serializers.CharField(read_only=True)
    file_name = serializers.CharField(read_only=True)
    path = serializers.CharField(read_only=True)
    external_id = serializers.CharField(read_only=True)
    media_type = serializers.CharField(read_only=True)
    language = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(choices=Document.State.choices, read_only=True)
    state_code = serializers.CharField(read_only=True)
    state_message = serializers.CharField(read_only=True)
    passage_count = serializers.IntegerField(read_only=True)
    warnings = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField(read_only=True)
    updated_at = serializers.DateTimeField(read_only=True)

    def get_warnings(self, document: Document) -> list[str]:
        version = document.current_version
        return list(version.warnings) if version else []


class UploadSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A file to store. `external_id` says what it is a version of; its name where none is given."""

    file = serializers.FileField(allow_empty_file=True, max_length=None)
    title = serializers.CharField(required=False, allow_blank=True, default="", max_length=300)
    external_id = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=1_000
    )


class PassageSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A passage as it can be read now."""

    id = serializers.UUIDField(source="chunk_id", read_only=True)
    document = serializers.UUIDField(source="document_id", read_only=True)
    version = serializers.UUIDField(source="version_id", read_only=True)
    source = serializers.UUIDField(source="source_id", read_only=True)  # type: ignore[assignment]
    number = serializers.IntegerField(source="ordinal", read_only=True)
    title = serializers.CharField(read_only=True)
    heading_path = serializers.ListField(child=serializers.CharField(), read_only=True)
    page = serializers.IntegerField(read_only=True, allow_null=True)
    text = serializers.CharField(read_only=True)
    digest = serializers.CharField(read_only=True)
    is_current = serializers.BooleanField(read_only=True)


class PassagePageSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A stretch of a document's passages. `next_start` is the `start` of the next one."""

    total = serializers.IntegerField(read_only=True)
    start = serializers.IntegerField(read_only=True)
    next_start = serializers.IntegerField(read_only=True, allow_null=True)
    results = PassageSerializer(source="passages", many=True, read_only=True)


class PassagePageQuerySerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Where to begin."""

    start = serializers.IntegerField(required=False, default=0, min_value=0, max_value=10_000_000)


class HitSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A passage that was found. `marks` are [start, end] spans of `text`, in code points."""

    passage = serializers.UUIDField(source="chunk_id", read_only=True)
    document = serializers.UUIDField(source="document_id", read_only=True)
    version = serializers.UUIDField(source="version_id", read_only=True)
    source = serializers.UUIDField(source="source_id", read_only=True)  # type: ignore[assignment]
    source_name = serializers.CharField(read_only=True)
    title = serializers.CharField(read_only=True)
    path = serializers.CharField(read_only=True)
    url = serializers.CharField(read_only=True)
    type = serializers.SerializerMethodField(help_text="The kind of file.")
    author = serializers.CharField(read_only=True)
    tags = serializers.ListField(child=serializers.CharField(), read_only=True)
    heading_path = serializers.ListField(child=serializers.CharField(), read_only=True)
    page = serializers.IntegerField(read_only=True, allow_null=True)
    text = serializers.CharField(read_only=True)
    updated_at = serializers.DateTimeField(read_only=True)
    dated_at = serializers.DateTimeField(read_only=True, allow_null=True)
    score = serializers.FloatField(read_only=True)
    lexical_rank = serializers.IntegerField(read_only=True, allow_null=True)
    vector_rank = serializers.IntegerField(read_only=True, allow_null=True)
    marks = serializers.ListField(
        child=serializers.ListField(child=serializers.IntegerField()), read_only=True
    )

    def get_type(self, hit: Hit) -> str:
        """A name of `retrieval.media.KINDS`, or "other"."""
        return kind_of(hit.media_type)


class FacetValueSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A value that documents of the best passages have, and how many of them."""

    value = serializers.CharField(read_only=True)
    label = serializers.CharField(read_only=True)  # type: ignore[assignment]
    count = serializers.IntegerField(read_only=True)


class FacetsSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Counts over the documents of the best passages that the caller may view."""

    source = FacetValueSerializer(many=True, read_only=True)  # type: ignore[assignment]
    type = FacetValueSerializer(many=True, read_only=True)
    author = FacetValueSerializer(many=True, read_only=True)
    tag = FacetValueSerializer(many=True, read_only=True)


class SearchResultSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What a search found. `visible` is false when the caller may search nothing at all here."""

    query = serializers.CharField(read_only=True)
    mode = serializers.ChoiceField(choices=[mode.value for mode in Mode], read_only=True)
    degraded = serializers.CharField(read_only=True)
    visible = serializers.BooleanField(read_only=True)
    similar_words = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Words that stand nowhere; ones like them were searched too.",
    )
    results = HitSerializer(source="hits", many=True, read_only=True)
    facets = FacetsSerializer(read_only=True, allow_null=True)


class SearchQuerySerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A search. Lists are given by repeating the parameter."""

    q = serializers.CharField(
        allow_blank=True,
        trim_whitespace=False,
        help_text=f"1 to {LONGEST_QUERY} characters. Words in quotes must stand there as they are; "
        "a word after a minus must not.",
    )
    limit = serializers.IntegerField(required=False, default=10, min_value=1, max_value=MOST_HITS)
    mode = serializers.ChoiceField(
        choices=[mode.value for mode in Mode], required=False, default=Mode.HYBRID.value
    )
    source = serializers.ListField(  # type: ignore[assignment]
        child=serializers.UUIDField(), required=False, help_text="Only in these sources."
    )
    type = serializers.ListField(
        child=serializers.ChoiceField(choices=list(KINDS)),
        required=False,
        help_text="Only files of these kinds.",
    )
    author = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, help_text="Only by these."
    )
    tag = serializers.ListField(
        child=serializers.CharField(max_length=60), required=False, help_text="With any of these."
    )
    after = serializers.DateTimeField(required=False, help_text="Dated at this time or later.")
    before = serializers.DateTimeField(required=False, help_text="Dated before this time.")
    recency = serializers.BooleanField(
        required=False, default=False, help_text="Prefer newer documents among those that fit."
    )
    facets = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Count found documents by source, type, author and tag.",
    )
