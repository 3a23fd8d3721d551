"""Tells the planner that a person has few principals: with its own guess of 1,000 it reads whole tables of grants."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_relation")]
    operations = [
        migrations.RunSQL(
            "ALTER FUNCTION accounts_principals(uuid, bigint) ROWS 10",
            "ALTER FUNCTION accounts_principals(uuid, bigint) ROWS 1000",
        ),
    ]
