"""Type-checked only, never run: each line is how a user writes it, and the checker must agree under `--strict`."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import abort_sync
from abort_sync import (
    AbortClient,
    AbortIncompleteError,
    AbortSyncError,
    Attempt,
    AttemptEvent,
    ConfigurationError,
    Keys,
    Limits,
    Outcome,
    OutcomeEvent,
    Report,
    ReportEvent,
    RoundEvent,
    RouterError,
    Status,
    Worker,
)
from abort_sync.testing import LocalFleet

version: str = abort_sync.__version__


def on_event(event: object) -> None:
    """A callback may take any object, and tell the events apart by type."""
    if isinstance(event, AttemptEvent):
        attempt: Attempt = event.attempt
        print(attempt.number, attempt.http_status)
    elif isinstance(event, OutcomeEvent):
        outcome: Outcome = event.outcome
        print(outcome.status)
    elif isinstance(event, RoundEvent):
        print(event)
    elif isinstance(event, ReportEvent):
        report: Report = event.report
        print(report)


def on_narrow_event(event: abort_sync.Event) -> None:
    """A callback may also name the union of the events."""


def making_a_client() -> Sequence[AbortClient]:
    """Every setting has a type, and one URL or several is the caller's choice."""
    return [
        AbortClient("http://router:30000"),
        AbortClient(["http://a:30000", "http://b:30000"], timeout_s=5),
        AbortClient(
            router_url=None,
            worker_urls=("http://10.0.0.1:30000",),
            agent_server_url="http://agents:8000",
            keys=Keys(router="r", worker="w", worker_admin=None, agent="a"),
            timeout_s=10.0,
            flush_timeout_s=120.0,
            limits=Limits(connect_s=2.0, read_s=5.0, attempts=3, threads=256),
            trust_env=False,
            verify="/etc/ssl/ca.pem",
            allow_empty=False,
            exclusive=True,
            rewrite_local_urls=True,
            on_event=on_event,
        ),
        AbortClient("http://router:30000", on_event=on_narrow_event),
        AbortClient.from_args(argparse.Namespace(sglang_router_ip="10.0.0.1", sglang_router_port=3000), timeout_s=3.0),
        AbortClient.from_env(exclusive=False),
    ]


def aborting(client: AbortClient) -> Sequence[Report]:
    """Each method gives one report; lists, tuples and generators of ids are taken."""
    return [
        client.abort_request("rid-1"),
        client.abort_request("rid-1", timeout_s=2.0),
        client.abort_requests(["a", "b"]),
        client.abort_requests((f"rid-{n}" for n in range(3)), timeout_s=2.0),
        client.abort_all(),
        client.abort_all(timeout_s=2.0),
        client.abort_until_idle(["a"], timeout_s=30.0, poll_s=0.25, settle=2),
        client.abort_all_until_idle(timeout_s=30.0, poll_s=0.25, settle=2),
        client.flush(["instance-1"]),
        client.flush({"instance-1", "instance-2"}, until_quiet=True, timeout_s=60.0),
        client.teardown(["instance-1"], rids=["a"], until_idle=True, timeout_s=30.0),
        client.teardown(abort_all=True),
    ]


def learning_the_workers(client: AbortClient) -> None:
    """Workers are values with text in them; loads can be unknown."""
    workers: tuple[Worker, ...] = client.workers()
    for worker in workers:
        url: str = worker.url
        via: str = worker.via
        kind: Optional[str] = worker.kind
        is_healthy: Optional[bool] = worker.is_healthy
        print(url, via, kind, is_healthy, worker.connection)
    same: tuple[Worker, ...] = client.wait_for_workers(3, timeout_s=30.0)
    print(same, client.discover(), client.loads())


def reading_a_report(report: Report) -> Optional[str]:
    """Nothing in a report is Any but the values of its dictionary form."""
    ok: bool = report.ok
    error: Optional[str] = report.error
    notes: tuple[str, ...] = report.notes
    as_dict: dict[str, Any] = report.to_dict()
    for outcome in report.failures:
        if outcome.status is Status.REFUSED:
            via: Optional[str] = outcome.via
            rid: Optional[str] = outcome.rid
            http_status: Optional[int] = outcome.http_status
            attempts: tuple[Attempt, ...] = outcome.attempts
            elapsed_s: float = outcome.elapsed_s
            print(outcome.target, via, rid, http_status, attempts, elapsed_s, outcome.error)
        counts: tuple[Optional[int], Optional[int]] = (outcome.cancelled, outcome.remaining)
        print(counts, outcome.status.value.lower())
    print(report.operation, ok, notes, as_dict, f"{report.elapsed_s:.2f}")
    return error


def errors(client: AbortClient) -> Optional[Report]:
    """The tree: one base, misuse is a ValueError, and an incomplete abort holds its report."""
    try:
        client.abort_all().raise_if_incomplete()
    except AbortIncompleteError as error:
        report: Report = error.report
        return report
    except (ConfigurationError, RouterError) as error:
        base: AbortSyncError = error
        print(base)
    return None


def guarding(client: AbortClient) -> Optional[Report]:
    """The guard swallows nothing, so code after the block is reached only when the block returned."""
    with client, client.abort_on_exit("a", "b") as guard:
        guard.add("c")
    report: Optional[Report] = guard.report
    return report


def returns_from_the_block(client: AbortClient) -> int:
    """A function may return from inside a guarded block without a return after it."""
    with client.abort_on_exit("a"):
        return 1


def drop_ins(args: argparse.Namespace, answer: Mapping[str, object]) -> Sequence[Report]:
    """The drop-in functions take what scripts have at hand."""
    rid: str = abort_sync.new_rid("train-")
    rids: Sequence[str] = abort_sync.expand_batch_rids(rid, 4)
    is_aborted: bool = abort_sync.is_aborted(answer)
    print(rids, is_aborted)
    return [
        abort_sync.abort(args),
        abort_sync.abort_sglang_request("http://router:30000", rid),
        abort_sync.abort_sglang_request("http://router:30000", rid, logger=logging.getLogger(__name__)),
        abort_sync.teardown(args),
        abort_sync.teardown(args, rids=[rid], abort_all=False),
    ]


def fleet() -> str:
    """The fleet gives the URLs to configure a client with."""
    with LocalFleet(workers=3, agent_server=True) as local:
        worker_url: str = local.worker_urls[0]
        router_url: str = local.router_url
        print(local.agent_url, worker_url)
        return router_url
