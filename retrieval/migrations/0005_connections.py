"""Connections to source systems."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0003_relation")]
    operations = []
