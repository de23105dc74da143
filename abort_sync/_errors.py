"""The error tree. This room knows no other room.

::

    AbortSyncError
    ├── ConfigurationError      misuse, found before any packet is sent (also a ValueError)
    ├── RouterError             the workers could not be learned
    │   └── RouterRefusedError  ... because a router wants another key (HTTP 401 or 403)
    └── AbortIncompleteError    Report.raise_if_incomplete(): something is not known to be done

All of them survive pickle. Trouble on the network is never raised by ``abort_*``, ``flush`` and
``teardown``: it stands in the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._report import Report


class AbortSyncError(Exception):
    """The base of every error that this package raises on purpose."""


class ConfigurationError(AbortSyncError, ValueError):
    """Raised when an argument or a setting cannot be used; nothing has been sent."""


class RouterError(AbortSyncError):
    """Raised by ``workers()``, ``discover()``, ``loads()`` and ``wait_for_workers()`` when the workers cannot be learned."""


class RouterRefusedError(RouterError):
    """Raised when a router answered 401 or 403: it wants another key."""


class AbortIncompleteError(AbortSyncError):
    """Raised by ``Report.raise_if_incomplete()`` when the report is not ok.

    Attributes:
        report: The report, with an outcome for each target.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.report = report

    def __str__(self) -> str:
        return str(self.report)
