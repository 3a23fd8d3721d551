"""The Celery application: finds every app's `jobs.py` and holds the one static list of periodic
jobs.
"""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")

app = Celery("kaizen")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(related_name="jobs")
app.conf.beat_schedule = {
    "seal the audit chains": {"task": "audit.seal", "schedule": 0.5, "options": {"expires": 2}},
    "end lost runs": {"task": "conversations.sweep", "schedule": 5.0, "options": {"expires": 5}},
    "ingest what a lost message left": {
        "task": "retrieval.sweep",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "sync connections that are due": {
        "task": "retrieval.sync_due",
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "go on with embedding spaces": {
        "task": "retrieval.tend_spaces",
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "fold new passages into postings": {
        "task": "retrieval.fold",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "forget what live sources said": {
        "task": "retrieval.forget_live_results",
        "schedule": 60.0,
        "options": {"expires": 60},
    },
    "go on with scorings": {
        "task": "retrieval.tend_scorings",
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "dispatch due tasks": {
        "task": "tasks.dispatch_due",
        "schedule": 5.0,
        "options": {"expires": 5},
    },
    "settle finished occurrences": {
        "task": "tasks.settle",
        "schedule": 5.0,
        "options": {"expires": 5},
    },
}
