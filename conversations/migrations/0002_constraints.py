"""The journal refuses change; children stay inside their organisation."""

from django.db import migrations

from kaizen.kernel.migrations import append_only, cascade_in_database, tenant_foreign_keys


class Migration(migrations.Migration):
    dependencies = [("conversations", "0001_initial"), ("agents", "0002_constraints")]
    operations = [
        append_only("conversations_journalevent"),
        tenant_foreign_keys(
            ("conversations_conversation", "agent_id", "agents_agent"),
            ("conversations_conversation", "project_id", "accounts_project"),
            ("conversations_conversation", "head_id", "conversations_message"),
            ("conversations_run", "conversation_id", "conversations_conversation"),
            ("conversations_run", "parent_id", "conversations_run"),
            ("conversations_run", "agent_version_id", "agents_agentversion"),
            ("conversations_run", "language_model_id", "agents_languagemodel"),
            ("conversations_run", "question_id", "conversations_message"),
            ("conversations_message", "conversation_id", "conversations_conversation"),
            ("conversations_message", "parent_id", "conversations_message"),
            ("conversations_message", "run_id", "conversations_run"),
            ("conversations_journalevent", "conversation_id", "conversations_conversation"),
        ),
        cascade_in_database(
            (
                "conversations_conversationusergrant",
                "content_object_id",
                "conversations_conversation",
                "id",
            ),
            (
                "conversations_conversationteamgrant",
                "content_object_id",
                "conversations_conversation",
                "id",
            ),
            ("conversations_conversationusergrant", "user_id", "accounts_user", "id"),
            ("conversations_conversationteamgrant", "group_id", "auth_group", "id"),
        ),
    ]
