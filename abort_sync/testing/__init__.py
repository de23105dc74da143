"""A fleet on loopback to test scripts against: a router, workers and an agent server; standard library only.

What is listed in `__all__` is loaded when it is first asked for, so that the pytest plugin in this package costs
nothing in test runs that do not use it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._agent import LoopbackAgentServer
    from ._behaviour import Behaviour
    from ._fleet import LocalFleet
    from ._received import Received
    from ._router import LoopbackRouter
    from ._worker import LoopbackWorker

__all__ = ["Behaviour", "LocalFleet", "LoopbackAgentServer", "LoopbackRouter", "LoopbackWorker", "Received"]

_ROOMS = {
    "Behaviour": "_behaviour",
    "LocalFleet": "_fleet",
    "LoopbackAgentServer": "_agent",
    "LoopbackRouter": "_router",
    "LoopbackWorker": "_worker",
    "Received": "_received",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
