"""Settings of the tests: the product's own, with addresses and secrets made for one run."""

from __future__ import annotations

import os

from tests import servers

os.environ.update(
    {
        "KAIZEN_SECRET_KEY": "test-" + "s" * 40,
        "KAIZEN_FIELD_KEYS": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
        "KAIZEN_RUNTIME_TOKEN": "test-runtime-token-" + "r" * 24,
        "KAIZEN_HOSTS": "testserver,localhost,127.0.0.1",
        "KAIZEN_HOME": str(servers.HOME),
        "DATABASE_URL": os.environ.get("KAIZEN_TEST_DATABASE_URL", servers.database_url()),
        "VALKEY_URL": servers.valkey_url(),
        "STORAGE_URL": f"file://{servers.HOME / 'storage'}",
    }
)

from kaizen.settings import *  # noqa: F403

# Every test client loads the middleware anew; looking at all static files each time takes long.
WHITENOISE_AUTOREFRESH = True
PASSWORD_HASHERS = ["tests.hashers.QuickHasher"]
