"""A second connector of the same package, which needs something that isn't installed."""

from __future__ import annotations

import a_library_that_is_not_installed as diary

DiaryConnector = diary.Connector
