"""Looks a team's parent up by its key, whoever has how many teams.

The planner's guess of 1,000 principals made it read whole tables of grants, and its joins compared every team of the
organisation with every team of the person. LIMIT ALL keeps a subquery in its place.
"""

from importlib import import_module

from django.db import migrations

PRINCIPALS = """
CREATE OR REPLACE FUNCTION accounts_principals(p_organization uuid, p_user bigint) RETURNS SETOF integer
LANGUAGE sql STABLE ROWS 10 SECURITY INVOKER SET search_path = public AS $$
    WITH RECURSIVE me AS (
        SELECT m.id FROM accounts_membership m
        JOIN accounts_organization o ON o.id = m.organization_id AND o.state = 'active'
        JOIN accounts_user u ON u.id = m.user_id AND u.is_active
        WHERE m.organization_id = p_organization AND m.user_id = p_user AND m.state = 'active'
    ), teams AS (
        SELECT t.group_ptr_id, t.parent_id FROM accounts_team t
        WHERE t.organization_id = p_organization AND EXISTS (SELECT 1 FROM me)
          AND (t.kind = 'everyone' OR t.group_ptr_id IN (
              SELECT x.team_id FROM accounts_teammembership x JOIN me ON x.membership_id = me.id
              WHERE x.organization_id = p_organization))
        UNION
        SELECT parent.group_ptr_id, parent.parent_id FROM teams CROSS JOIN LATERAL (
            SELECT p.group_ptr_id, p.parent_id FROM accounts_team p
            WHERE p.group_ptr_id = teams.parent_id AND p.organization_id = p_organization LIMIT ALL) parent
    )
    SELECT group_ptr_id FROM teams
$$
"""
_old = import_module("accounts.migrations.0002_relation").PRINCIPALS


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_relation")]
    operations = [
        migrations.RunSQL(
            PRINCIPALS, _old.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
        ),
    ]
