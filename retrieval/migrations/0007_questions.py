"""Question sets and what was scored with them."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0006_spaces")]
    operations = []
