"""Accepted is not stopped: until the engines themselves say that nothing is left."""

from __future__ import annotations

import threading
import time

import pytest

from abort_sync import AbortClient, Status, is_aborted

from . import traffic
from .processes import SLOTS
from .traffic import Generation


class Producer:
    """Sends new generations to an engine all the time, as agents do that nobody has told to stop."""

    def __init__(self, url: str) -> None:
        self.generations: list[Generation] = []
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self.generations.append(Generation(self._url, f"new-{len(self.generations):05d}"))

    def __enter__(self) -> Producer:
        self._thread.start()
        while not traffic.load(self._url).get("num_used_tokens"):
            time.sleep(0.01)
        return self

    def __exit__(self, *exc_info) -> None:
        self._stop.set()
        self._thread.join()


def statuses(report):
    return {one.target: one.status for one in report.outcomes}


def test_abort_all_then_idle(client, engines, measured):
    """After `abort_all` both engines become idle, and every request, queued ones too, has answered that it was aborted."""
    generations = [one for url in engines for one in traffic.start(url, SLOTS + 4)]
    for url in engines:
        traffic.wait_for(url, running=SLOTS, waiting=4)

    started = time.monotonic()
    report = client.abort_all()
    assert report.ok, str(report)
    for url in engines:
        traffic.wait_for(url, running=0, waiting=0)

    measured(f"abort_all of {len(generations)} requests on 2 engines to both idle", [time.monotonic() - started])
    assert all(is_aborted(one.wait()) for one in generations)
    assert all(load.remaining == 0 for load in client.loads().values())


def test_until_idle_ends_idle_with_everything_aborted(client, engines):
    """Running and queued requests by rid: both engines IDLE, and no request has any work left."""
    generations = [one for url, name in zip(engines, "ab") for one in traffic.start(url, SLOTS + 4, name)]
    for url in engines:
        traffic.wait_for(url, running=SLOTS, waiting=4)

    report = client.abort_until_idle([one.rid for one in generations], timeout_s=60.0)

    assert report.ok, str(report)
    assert statuses(report) == dict.fromkeys(engines, Status.IDLE)
    assert all(one.remaining == 0 for one in report.outcomes)
    assert all(is_aborted(one.wait()) for one in generations)


def test_while_new_requests_keep_coming_it_ends_busy_and_idle_once_they_stop(client, engines):
    """An engine that is fed is never called idle: back at the deadline with BUSY and what remains; IDLE after the feeding."""
    fed = AbortClient(worker_urls=engines[:1])
    with Producer(engines[0]) as producer:
        for _ in range(10):
            report = fed.abort_all_until_idle(timeout_s=3.0)
            assert not report.ok
            assert report.elapsed_s < 10.0
            if report.outcomes[0].status is Status.BUSY:
                break
            # The last look fell between an abort and the next request: without a second one that proves nothing.
            assert report.outcomes[0].status is Status.UNKNOWN, str(report)
        assert report.outcomes[0].status is Status.BUSY
        assert report.outcomes[0].remaining > 0

    report = client.abort_all_until_idle(timeout_s=60.0)

    assert statuses(report) == dict.fromkeys(engines, Status.IDLE), str(report)
    assert all(is_aborted(one.wait()) for one in producer.generations)


@pytest.mark.parametrize(("exclusive", "status"), [(True, Status.BUSY), (False, Status.UNKNOWN)])
def test_what_others_run_is_not_called_ours(router, engines, exclusive, status):
    """The engine does not say whose requests are left: BUSY on a fleet of one's own, UNKNOWN on a shared one; never IDLE."""
    mine, theirs = Generation(engines[0], "mine"), Generation(engines[0], "theirs")
    traffic.wait_for(engines[0], running=2)

    report = AbortClient(router, exclusive=exclusive).abort_until_idle(["mine"], timeout_s=5.0)

    assert statuses(report) == {engines[0]: status, engines[1]: Status.IDLE}, str(report)
    assert is_aborted(mine.wait())
    assert theirs.is_running


def test_a_prefill_is_work_though_no_count_shows_it(client, engines):
    """A long prompt that is still being read is in neither count of the engine: it is seen, waited for, and ended."""
    generation = Generation(engines[0], "long", prompt=[5] * 60_000)
    while not traffic.load(engines[0]).get("num_used_tokens"):
        time.sleep(0.01)
    seen = client.loads()[engines[0]]
    assert seen is not None
    assert (seen.running, seen.waiting) == (0, 0)
    assert seen.remaining > 0

    report = client.abort_until_idle(["long"], timeout_s=120.0)

    assert statuses(report) == dict.fromkeys(engines, Status.IDLE), str(report)
    assert is_aborted(generation.wait())


@pytest.mark.parametrize("everything", [False, True])
def test_two_hundred_requests_until_idle(client, router, engines, measured, everything):
    """200 requests that the router spread over two engines, most of them queued: all end, and both engines are IDLE."""
    generations = traffic.start(router, 200)
    deadline = time.monotonic() + 120.0
    while sum(load.get("num_running_reqs", 0) + load.get("num_waiting_reqs", 0) for load in map(traffic.load, engines)) < 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)

    started = time.monotonic()
    if everything:
        report = client.abort_all_until_idle(timeout_s=120.0)
    else:
        report = client.abort_until_idle([one.rid for one in generations], timeout_s=120.0)
    elapsed = time.monotonic() - started

    assert statuses(report) == dict.fromkeys(engines, Status.IDLE), str(report)
    assert all(is_aborted(one.wait()) for one in generations)
    how = "abort_all_until_idle" if everything else "abort_until_idle, by 200 rids"
    measured(f"200 requests on 2 engines until idle: {how}", [elapsed])
