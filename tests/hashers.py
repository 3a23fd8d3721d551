"""The product's password hasher with few rounds: hundreds of tests sign somebody in.

Same algorithm and format, so the product's processes read these hashes as their own.
"""

from __future__ import annotations

from django.contrib.auth.hashers import PBKDF2PasswordHasher


class QuickHasher(PBKDF2PasswordHasher):
    """A thousand rounds."""

    iterations = 1_000
