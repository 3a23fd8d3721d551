"""Secrets at rest: never readable in the database, rotatable, never silently empty."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.fernet import Fernet, InvalidToken
from django.db import connection

from agents.models import ModelProvider
from kaizen.kernel.secrets import decrypt, encrypt
from tests import factories

KEY = "sk-canary-3f9a"


def stored(provider: ModelProvider) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT api_key FROM agents_modelprovider WHERE id = %s", [provider.pk])
        return str(cursor.fetchone()[0])


def make() -> ModelProvider:
    organization = factories.make_organization()
    return factories.make_language_model(organization, kind="openai", api_key=KEY).provider


@pytest.mark.django_db
def test_a_key_is_plain_in_python_and_encrypted_in_the_database() -> None:
    provider = make()
    assert KEY not in stored(provider)
    assert stored(provider).startswith("gAAAA")
    assert ModelProvider.objects.get(pk=provider.pk).api_key == KEY


@pytest.mark.django_db
def test_the_same_key_is_never_stored_alike_and_cannot_be_looked_for() -> None:
    one, two = make(), make()
    assert stored(one) != stored(two)
    assert ModelProvider.objects.filter(api_key=KEY).count() == 0


@pytest.mark.django_db
def test_no_key_stays_no_key() -> None:
    provider = make()
    provider.api_key = ""
    provider.save()
    assert stored(provider) == ""
    assert ModelProvider.objects.get(pk=provider.pk).api_key == ""


def test_keys_rotate(settings: Any) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.KAIZEN_FIELD_KEYS = [old]
    token = encrypt(KEY)
    settings.KAIZEN_FIELD_KEYS = [new, old]
    assert decrypt(token) == KEY
    fresh = encrypt(KEY)
    settings.KAIZEN_FIELD_KEYS = [new]
    assert decrypt(fresh) == KEY
    with pytest.raises(InvalidToken):
        decrypt(token)


@pytest.mark.django_db
def test_a_value_that_no_key_opens_raises_and_is_not_empty(settings: Any) -> None:
    provider = make()
    settings.KAIZEN_FIELD_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(InvalidToken):
        ModelProvider.objects.get(pk=provider.pk)
