"""The tasks API: thin doors to `services` and `queries`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.authority import Authority
from kaizen.kernel.api import AuthorityView, KeysetPagination
from kaizen.kernel.clock import now
from tasks import queries, services
from tasks.models import Task
from tasks.serializers import (
    OccurrenceOutput,
    TaskChange,
    TaskDetail,
    TaskInput,
    TaskOutput,
)


class OccurrencePages(KeysetPagination):
    """Occurrences by due time, newest first."""

    ordering = "-due_at"


def _detail(authority: Authority, task_id: UUID) -> dict[str, Any]:
    task = queries.get_task(authority, task_id)
    detail = {
        "task": queries.view_task(task),
        "consent": queries.view_consent(task),
        "next_due": queries.list_next_due(task, now()),
    }
    return dict(TaskDetail(detail).data)


class TaskList(AuthorityView):
    """The caller's tasks."""

    required_scope = "chat"

    @extend_schema(operation_id="tasks_list", responses=TaskOutput(many=True))
    def get(self, request: Request) -> Response:
        """The tasks the caller may see, newest first."""
        pages = KeysetPagination()
        page = pages.paginate_queryset(queries.list_tasks(self.authority), request, view=self)
        return pages.get_paginated_response(
            TaskOutput(queries.view_tasks(page or []), many=True).data
        )

    @extend_schema(operation_id="tasks_create", request=TaskInput, responses={201: TaskDetail})
    def post(self, request: Request) -> Response:
        """Create a task and agree to its unattended work."""
        values = TaskInput(data=request.data)
        values.is_valid(raise_exception=True)
        fields = dict(values.validated_data)
        task = services.save_task(self.authority, agent_id=fields.pop("agent"), **fields)
        return Response(_detail(self.authority, task.pk), status=201)


class TaskOne(AuthorityView):
    """One task."""

    required_scope = "chat"

    @extend_schema(operation_id="tasks_get", responses=TaskDetail)
    def get(self, request: Request, task_id: UUID) -> Response:
        """The task, its consent and its next due times."""
        return Response(_detail(self.authority, task_id))

    @extend_schema(operation_id="tasks_change", request=TaskChange, responses=TaskDetail)
    def patch(self, request: Request, task_id: UUID) -> Response:
        """Change the task and agree to it anew."""
        task = queries.get_task(self.authority, task_id)
        values = TaskChange(data=request.data)
        values.is_valid(raise_exception=True)
        given = dict(values.validated_data)
        services.save_task(
            self.authority,
            task=task,
            name=given.get("name", task.name),
            agent_id=given.get("agent", task.agent_id),
            prompt=given.get("prompt", task.prompt),
            cron=given.get("cron", task.cron),
            time_zone=given.get("time_zone", task.time_zone),
            consent=given["consent"],
            days=given["days"],
        )
        return Response(_detail(self.authority, task_id))

    @extend_schema(operation_id="tasks_archive", responses={204: None})
    def delete(self, request: Request, task_id: UUID) -> Response:
        """Put the task away and end its consent; its results stay."""
        services.archive(self.authority, task=queries.get_task(self.authority, task_id))
        return Response(status=204)


class TaskVerb(AuthorityView):
    """A verb on one task; subclasses say which."""

    required_scope = "chat"

    def act(self, task: Task) -> None:
        """Call the verb's service."""
        raise NotImplementedError

    @extend_schema(request=None, responses=TaskDetail)
    def post(self, request: Request, task_id: UUID) -> Response:
        """Do it, and return the task as it is then."""
        self.act(queries.get_task(self.authority, task_id))
        return Response(_detail(self.authority, task_id))


class TaskPause(TaskVerb):
    """Let no further due time start."""

    def act(self, task: Task) -> None:
        services.pause(self.authority, task=task)


class TaskResume(TaskVerb):
    """Go on from the next due time."""

    def act(self, task: Task) -> None:
        services.resume(self.authority, task=task)


class TaskRevoke(TaskVerb):
    """End the consent; what is running is stopped."""

    def act(self, task: Task) -> None:
        services.revoke_consent(self.authority, task=task)


class TaskOccurrences(AuthorityView):
    """The due times of one task."""

    required_scope = "chat"

    @extend_schema(operation_id="tasks_occurrences", responses=OccurrenceOutput(many=True))
    def get(self, request: Request, task_id: UUID) -> Response:
        """The occurrences, newest first."""
        task = queries.get_task(self.authority, task_id)
        pages = OccurrencePages()
        rows = queries.list_occurrences(self.authority, task)
        page = pages.paginate_queryset(rows, request, view=self)
        return pages.get_paginated_response(
            OccurrenceOutput(queries.view_occurrences(page or []), many=True).data
        )
