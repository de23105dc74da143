"""A blocking, threaded client that stops work in flight, on every server that holds it, and says truthfully what happened.

Each name is loaded when it is first asked for: reward processes import this thousands of times, and the pytest plugin lives in
this package, so a bare ``import abort_sync`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._client import AbortClient
    from ._config import Keys, Limits
    from ._errors import AbortIncompleteError, AbortSyncError, ConfigurationError, RouterError, RouterRefusedError
    from ._events import AttemptEvent, Event, OutcomeEvent, ReportEvent, RoundEvent
    from ._guard import AbortGuard
    from ._hooks import abort, abort_sglang_request, teardown
    from ._loads import Load
    from ._report import Attempt, Outcome, Report, Status
    from ._rids import expand_batch_rids, is_aborted, new_rid
    from ._workers import Discovery, RouterView, Worker

__version__ = "0.1.0"

__all__ = [
    "AbortClient",
    "AbortGuard",
    "AbortIncompleteError",
    "AbortSyncError",
    "Attempt",
    "AttemptEvent",
    "ConfigurationError",
    "Discovery",
    "Event",
    "Keys",
    "Limits",
    "Load",
    "Outcome",
    "OutcomeEvent",
    "Report",
    "ReportEvent",
    "RoundEvent",
    "RouterError",
    "RouterRefusedError",
    "RouterView",
    "Status",
    "Worker",
    "abort",
    "abort_sglang_request",
    "expand_batch_rids",
    "is_aborted",
    "new_rid",
    "teardown",
]

_ROOMS = {
    "_client": ("AbortClient",),
    "_config": ("Keys", "Limits"),
    "_errors": ("AbortIncompleteError", "AbortSyncError", "ConfigurationError", "RouterError", "RouterRefusedError"),
    "_events": ("AttemptEvent", "Event", "OutcomeEvent", "ReportEvent", "RoundEvent"),
    "_guard": ("AbortGuard",),
    "_hooks": ("abort", "abort_sglang_request", "teardown"),
    "_loads": ("Load",),
    "_report": ("Attempt", "Outcome", "Report", "Status"),
    "_rids": ("expand_batch_rids", "is_aborted", "new_rid"),
    "_workers": ("Discovery", "RouterView", "Worker"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(f".{_ROOM_OF[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
