"""Members' own credentials for live sources."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0007_questions")]
    operations = []
