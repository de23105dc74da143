"""Agents that go on producing requests while everything is torn down."""

from __future__ import annotations

import threading

from abort_sync import AbortClient, Keys, Status, is_aborted
from abort_sync.testing import LocalFleet

from . import traffic


def test_teardown_ends_the_agents_and_what_they_sent(router, engines, measured):
    """Agents send new requests until their flush, a trial that waited for a slot after it too: in the end nothing runs anywhere."""
    generations: list[traffic.Generation] = []
    is_over = threading.Event()

    def trials(agent) -> None:
        # Each running trial sends a request every 20 ms.
        while not is_over.wait(0.02):
            for _ in range(agent.running.get("run-1", 0)):
                generations.append(traffic.Generation(engines[len(generations) % 2], f"agent-{len(generations):05d}"))

    with LocalFleet(workers=0, agent_secret="admin", teardown_s=0.5) as fleet:
        fleet.agent.start_runs("run-1", 2)
        fleet.agent.waiting("run-1", 1)
        producing = threading.Thread(target=trials, args=(fleet.agent,))
        producing.start()
        try:
            while not all(traffic.load(url).get("num_running_reqs") for url in engines):
                pass
            client = AbortClient(router, agent_server_url=fleet.agent_url, keys=Keys(agent="admin"))
            report = client.teardown(["run-1"], abort_all=True, timeout_s=60.0)
            assert fleet.agent.running == {}
        finally:
            is_over.set()
            producing.join()

    assert report.ok, str(report)
    flush, *workers = report.outcomes
    assert (flush.target, flush.status, flush.cancelled) == ("run-1", Status.ACCEPTED, 3)
    assert {one.target: one.status for one in workers} == dict.fromkeys(engines, Status.IDLE)
    assert all(is_aborted(one.wait()) for one in generations)
    measured(f"teardown of 3 trials (flush 0.5 s each) and {len(generations)} requests", [report.elapsed_s])
