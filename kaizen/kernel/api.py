"""The API's manners: problem+json (RFC 9457), keyset pages, and views that carry their caller's
authority.
"""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError
from django.http import Http404, JsonResponse
from rest_framework import exceptions
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, set_rollback

from kaizen.kernel.errors import Invalid, KaizenError, Missing, TooLarge, Unsupported
from kaizen.kernel.models import exact_json

if TYPE_CHECKING:
    from accounts.authority import Authority

PROBLEM_TYPE = "application/problem+json"


def problem(error: KaizenError) -> dict[str, Any]:
    """The problem document of `error`."""
    return {
        "type": f"urn:kaizen:error:{error.code}",
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        **error.data,
    }


def problem_headers(error: KaizenError) -> dict[str, str]:
    """Headers that belong to `error`: when to come back, how to authenticate."""
    headers = {}
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="kaizen"'
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return headers


def problem_json(error: KaizenError) -> JsonResponse:
    """`error` as a plain Django response, for middleware and asynchronous views."""
    return JsonResponse(
        problem(error),
        status=error.status,
        content_type=PROBLEM_TYPE,
        headers=problem_headers(error),
    )


def problem_response(exception: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: our errors and DRF's own in one shape; None lets a bug be a plain
    500.
    """
    error = _as_kaizen_error(exception)
    if error is None:
        return None
    set_rollback()
    return Response(
        problem(error),
        status=error.status,
        content_type=PROBLEM_TYPE,
        headers=problem_headers(error),
    )


def _as_kaizen_error(exception: Exception) -> KaizenError | None:
    match exception:
        case KaizenError():
            return exception
        case Http404():
            return Missing()
        case exceptions.ValidationError():
            return Invalid(
                "Some fields can't be used as they are.", data={"errors": exception.detail}
            )
        case exceptions.ParseError():
            return Invalid(
                f"The request body can't be read: {exception.detail}", code="parse_error"
            )
        case exceptions.UnsupportedMediaType():
            return Unsupported(str(exception.detail))
        case exceptions.APIException():
            error = KaizenError(str(exception.detail), code=str(exception.default_code))
            error.status = exception.status_code  # type: ignore[misc]
            return error
        case _:
            return None


class KeysetPagination(CursorPagination):
    """Pages by the last row seen: page 100 costs what page 1 does."""

    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 200
    ordering: Any = "-id"

    def paginate_queryset(
        self, queryset: Any, request: Request, view: APIView | None = None
    ) -> list[Any] | None:
        """One page. Raises Invalid for a cursor that no page of this list ever gave."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValidationError, ValueError):
            raise Invalid("That cursor doesn't belong to this list.", code="cursor") from None


class AuthorityView(APIView):
    """Base of every API view: knows its caller and the scope a key needs."""

    required_scope: ClassVar[str] = ""

    @property
    def authority(self) -> Authority:
        """Who is asking; set by the authentication classes."""
        authority: Authority = self.request.auth  # type: ignore[assignment]
        return authority

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.required_scope:
            self.authority.check_scope(self.required_scope)


def request_digest(value: Any) -> str:
    """SHA-256 over the exact text of a request body, to tell a retry from another request."""
    return hashlib.sha256(exact_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def check_size(size: int, *, limit: int) -> None:
    """Raise TooLarge when `size` bytes are more than `limit`."""
    if size > limit:
        raise TooLarge(f"The file is larger than the limit of {limit // (1024 * 1024)} MB.")
