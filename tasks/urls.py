"""Addresses of the tasks pages, under `/o/<slug>/`."""

from __future__ import annotations

from django.urls import path

from tasks import pages

app_name = "tasks"
urlpatterns = [
    path("tasks/", pages.tasks, name="tasks"),
    path("tasks/new/", pages.new, name="new"),
    path("tasks/<uuid:task_id>/", pages.task, name="task"),
    path("tasks/<uuid:task_id>/edit/", pages.edit, name="edit"),
    path("tasks/<uuid:task_id>/pause/", pages.pause, name="pause"),
    path("tasks/<uuid:task_id>/resume/", pages.resume, name="resume"),
    path("tasks/<uuid:task_id>/revoke/", pages.revoke, name="revoke"),
    path("tasks/<uuid:task_id>/renew/", pages.renew, name="renew"),
    path("tasks/<uuid:task_id>/archive/", pages.archive, name="archive"),
]
