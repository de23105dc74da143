"""A call whose transport is a script: everything above the socket is real, and nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abort_sync import AbortClient
from abort_sync._answer import Answer, Order
from abort_sync._call import Call
from abort_sync._deadline import Deadline
from abort_sync._sockets import Line


class ScriptedTransport:
    """Answers each order as the script says, and keeps the orders."""

    def __init__(self, script: Callable[[Order], Answer]) -> None:
        self.script = script
        self.orders: list[Order] = []

    def attempt(self, order: Order, line: Line, deadline: Deadline) -> Answer:
        self.orders.append(order)
        return self.script(order)

    @property
    def urls(self) -> list[str]:
        return [one.url for one in self.orders]


def stage(script: Callable[[Order], Answer], *, timeout_s: float = 60.0, **client: Any) -> tuple[Call, ScriptedTransport]:
    """Return a call of a client made of these arguments, and its transport."""
    call = Call("test", AbortClient(**client)._settings, timeout_s)
    transport = ScriptedTransport(script)
    call._transport = transport  # type: ignore[assignment]  # a stand-in
    return call, transport
