"""The principals of a person as SQL, and the constraints that keep children inside their organisation."""

from django.db import migrations

from kaizen.kernel.migrations import cascade_in_database, tenant_foreign_keys

# Nobody (no rows, not even everyone's team) unless person, membership and organisation are all active.
PRINCIPALS = """
CREATE FUNCTION accounts_principals(p_organization uuid, p_user bigint) RETURNS SETOF integer
LANGUAGE sql STABLE SECURITY INVOKER SET search_path = public AS $$
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
        SELECT p.group_ptr_id, p.parent_id FROM accounts_team p JOIN teams ON p.group_ptr_id = teams.parent_id
        WHERE p.organization_id = p_organization
    )
    SELECT group_ptr_id FROM teams
$$
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial")]
    operations = [
        migrations.RunSQL(PRINCIPALS, "DROP FUNCTION accounts_principals(uuid, bigint)"),
        tenant_foreign_keys(
            ("accounts_teammembership", "membership_id", "accounts_membership"),
            ("accounts_apikey", "membership_id", "accounts_membership"),
        ),
        cascade_in_database(
            ("accounts_projectusergrant", "content_object_id", "accounts_project", "key"),
            ("accounts_projectteamgrant", "content_object_id", "accounts_project", "key"),
            ("accounts_projectusergrant", "user_id", "accounts_user", "id"),
            ("accounts_projectteamgrant", "group_id", "auth_group", "id"),
        ),
    ]
