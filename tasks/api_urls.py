"""Addresses of the tasks API, under `/o/<slug>/api/v1/`."""

from __future__ import annotations

from django.urls import path

from tasks import api

urlpatterns = [
    path("tasks/", api.TaskList.as_view()),
    path("tasks/<uuid:task_id>/", api.TaskOne.as_view()),
    path("tasks/<uuid:task_id>/pause/", api.TaskPause.as_view()),
    path("tasks/<uuid:task_id>/resume/", api.TaskResume.as_view()),
    path("tasks/<uuid:task_id>/revoke/", api.TaskRevoke.as_view()),
    path("tasks/<uuid:task_id>/occurrences/", api.TaskOccurrences.as_view()),
]
