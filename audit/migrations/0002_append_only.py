"""Events and links refuse change, for everybody."""

from django.db import migrations

from kaizen.kernel.migrations import append_only


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]
    operations = [append_only("audit_auditevent", "audit_auditlink")]
