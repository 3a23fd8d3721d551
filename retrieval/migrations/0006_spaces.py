"""How far the building of an embedding space is."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0005_connections")]
    operations = []
