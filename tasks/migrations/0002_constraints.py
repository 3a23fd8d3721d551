"""Children stay inside their organisation."""

from django.db import migrations

from kaizen.kernel.migrations import cascade_in_database, tenant_foreign_keys


class Migration(migrations.Migration):
    dependencies = [("tasks", "0001_initial"), ("conversations", "0002_constraints")]
    operations = [
        tenant_foreign_keys(
            ("tasks_task", "agent_id", "agents_agent"),
            ("tasks_delegation", "task_id", "tasks_task"),
            ("tasks_occurrence", "task_id", "tasks_task"),
            ("tasks_occurrence", "conversation_id", "conversations_conversation"),
            ("tasks_occurrence", "run_id", "conversations_run"),
        ),
        cascade_in_database(
            ("tasks_taskusergrant", "content_object_id", "tasks_task", "id"),
            ("tasks_taskteamgrant", "content_object_id", "tasks_task", "id"),
            ("tasks_taskusergrant", "user_id", "accounts_user", "id"),
            ("tasks_taskteamgrant", "group_id", "auth_group", "id"),
        ),
    ]
