"""The demo: a fleet on loopback, two of its workers broken, torn down while it works."""

from __future__ import annotations

import argparse
from collections import Counter

from abort_sync import Report, Status, new_rid
from abort_sync.cli._reports import progress, show_report
from abort_sync.cli._screen import Screen
from abort_sync.cli._status import NOT_WELL, WELL
from abort_sync.testing import Behaviour, LocalFleet


def demo(options: argparse.Namespace, screen: Screen) -> int:
    """Tear a small busy fleet down and print the report; 0 if the report tells the truth about it."""
    with LocalFleet(workers=8) as fleet:
        rids = [worker.start_generation(new_rid("demo-")) for worker in fleet.workers]
        instance_ids = [f"demo-instance-{number}" for number in (1, 2, 3)]
        for instance_id in instance_ids:
            fleet.agent.start_runs(instance_id, 2)
        *healthy, hung, dead = fleet.workers
        hung.behave(Behaviour.hang())
        dead.kill()
        screen.say(f"8 workers generate on loopback behind {fleet.router_url}; {hung.url} hangs, {dead.url} is dead.")
        screen.say(f"The agent server {fleet.agent_url} runs 2 trials for each of 3 instance ids. Tearing it all down:")
        with progress(screen) as on_event:
            client = fleet.client(on_event=on_event)
            report = client.teardown(instance_ids, rids=rids, until_idle=True, timeout_s=6.0)
        show_report(screen, report)
        left = sum(len(worker.running) for worker in healthy) + len(fleet.agent.running)
        expected = {
            **dict.fromkeys(instance_ids, Status.ACCEPTED),
            **{worker.url: Status.IDLE for worker in healthy},
            hung.url: Status.UNKNOWN,
            dead.url: Status.UNREACHABLE,
        }
    is_true = not left and _statuses(report) == expected and len(report.outcomes) == len(expected)
    if is_true:
        screen.say("\nAs it should be: all that can be stopped has stopped, and the two broken workers are named.")
        return WELL
    screen.warn(f"NOT as it should be: {left} requests or trials still run; expected {_counts(expected)}")
    return NOT_WELL


def _statuses(report: Report) -> dict[str, Status]:
    return {outcome.target: outcome.status for outcome in report.outcomes}


def _counts(statuses: dict[str, Status]) -> str:
    return ", ".join(f"{count} {status}" for status, count in Counter(statuses.values()).items())
