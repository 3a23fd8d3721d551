"""Versions and ledger refuse change; children stay inside their organisation."""

from django.db import migrations

from kaizen.kernel.migrations import append_only, cascade_in_database, tenant_foreign_keys


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_initial"), ("retrieval", "0003_relation")]
    operations = [
        append_only("agents_promptversion", "agents_agentversion", "agents_ledgerentry"),
        tenant_foreign_keys(
            ("agents_languagemodel", "provider_id", "agents_modelprovider"),
            ("agents_promptversion", "prompt_id", "agents_prompt"),
            ("agents_agent", "prompt_id", "agents_prompt"),
            ("agents_agent", "language_model_id", "agents_languagemodel"),
            ("agents_agent", "current_version_id", "agents_agentversion"),
            ("agents_agentsource", "agent_id", "agents_agent"),
            ("agents_agentsource", "source_id", "retrieval_source"),
            ("agents_agentversion", "agent_id", "agents_agent"),
            ("agents_agentversion", "prompt_version_id", "agents_promptversion"),
            ("agents_agentversion", "language_model_id", "agents_languagemodel"),
            ("agents_modelcall", "language_model_id", "agents_languagemodel"),
        ),
        cascade_in_database(
            ("agents_agentusergrant", "content_object_id", "agents_agent", "id"),
            ("agents_agentteamgrant", "content_object_id", "agents_agent", "id"),
            ("agents_promptusergrant", "content_object_id", "agents_prompt", "id"),
            ("agents_promptteamgrant", "content_object_id", "agents_prompt", "id"),
            ("agents_languagemodelusergrant", "content_object_id", "agents_languagemodel", "id"),
            ("agents_languagemodelteamgrant", "content_object_id", "agents_languagemodel", "id"),
            *(
                (f"agents_{name}usergrant", "user_id", "accounts_user", "id")
                for name in ("agent", "prompt", "languagemodel")
            ),
            *(
                (f"agents_{name}teamgrant", "group_id", "auth_group", "id")
                for name in ("agent", "prompt", "languagemodel")
            ),
        ),
    ]
