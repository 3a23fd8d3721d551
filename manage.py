#!/usr/bin/env python
"""Django's command line for Kaizen."""

import os
import sys

from django.core.management import execute_from_command_line

from kaizen.embedded.environment import adopt_environment

if __name__ == "__main__":
    # A command typed by hand meets the same database as the processes of `make up`.
    adopt_environment(sys.argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")
    execute_from_command_line(sys.argv)
