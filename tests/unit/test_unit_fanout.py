"""The fan-out, without HTTP: which step runs when, what ends it, and what happens where threads are refused."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fake_steps import Steps

from abort_sync._deadline import Deadline
from abort_sync._fanout import FanOut, Spawn

LONG_S = 60.0


def nothing() -> None:
    """Cut nothing."""


def run(work: Iterator[Any], timeout_s: float = LONG_S, threads: int = 8, cut: Callable[[], None] = nothing) -> FanOut:
    fan_out = FanOut(work, Deadline.after(timeout_s), threads, cut)
    fan_out.run()
    return fan_out


def real(work: Iterator[Any]) -> None:
    """Run on real threads, one at a time."""
    run(work, threads=1)


def fake(work: Iterator[Any]) -> None:
    """Run on the fake clock of the tests."""
    assert Steps().run(work)


def refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("can't start new thread")


@pytest.fixture(params=["usual", "executor refused", "threads refused from inside", "no thread at all"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way in which the interpreter gives or refuses threads."""
    if request.param == "executor refused":  # atexit, or the main thread has ended
        monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    elif request.param == "threads refused from inside":  # a thread limit
        lead: list[Callable[..., int]] = [_thread.start_new_thread]
        monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
        monkeypatch.setattr(_thread, "start_new_thread", lambda *args: lead.pop()(*args) if lead else refuse())
        monkeypatch.setattr(threading.Thread, "start", refuse)
    elif request.param == "no thread at all":
        monkeypatch.setattr(_thread, "start_new_thread", refuse)
    return str(request.param)


@pytest.mark.parametrize("drive", [real, fake])
def test_steps_come_in_the_order_of_their_times(drive: Callable[[Iterator[Any]], None]) -> None:
    """A number waits, a list is awaited as a whole, a Spawn is not awaited; the tests' own fake clock keeps the same order."""
    seen: list[str] = []

    def one(name: str, *waits: float) -> Iterator[Any]:
        for number, wait in enumerate(waits):
            seen.append(f"{name}{number}")
            yield wait
        seen.append(f"{name} ends")

    def all_of_it() -> Iterator[Any]:
        yield [one("a", 0.3), one("b", 0.0, 0.1), one("c")]
        seen.append("three ended")
        yield Spawn([one("d", 0.3, LONG_S)])
        yield []
        seen.append("spawned")
        yield [nested()]
        seen.append("end")

    def nested() -> Iterator[Any]:
        yield [one("e"), one("f", 0.0)]
        seen.append("nested")

    drive(all_of_it())
    assert [one for one in seen if one[0] in "abc"] == ["a0", "b0", "c ends", "b1", "b ends", "a ends"]
    assert seen.index("three ended") == 6
    assert [one for one in seen[7:] if not one.startswith("d")] == ["spawned", "e ends", "f0", "f ends", "nested", "end"]
    assert "d ends" not in seen[: seen.index("end")]


def test_everything_runs_however_threads_are_given(threads: str) -> None:
    """F3, F7: with an executor, with plain threads, or with the calling thread alone, every step of every piece is made."""
    seen: list[int] = []

    def one(number: int) -> Iterator[Any]:
        yield 0.0
        yield 0.01
        seen.append(number)

    def work() -> Iterator[Any]:
        yield [one(number) for number in range(50)]
        seen.append(-1)

    run(work())
    assert sorted(seen) == list(range(-1, 50))
    assert seen[-1] == -1


def test_what_becomes_ready_while_the_lead_makes_up_its_mind_is_not_slept_over() -> None:
    """F7: a piece may become due between two looks at the clock; nobody would wake a lone thread that then waited for others."""
    fan_out = FanOut(iter([0.0]), Deadline.after(LONG_S), 8, nothing)  # its piece is ready, and no thread is at work
    assert fan_out._until_next(32) == 0.0
    fan_out._active = 8
    assert fan_out._until_next(32) > LONG_S / 2


def test_two_that_fail_to_start_a_thread_at_once_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """F7: the lead and the calling thread are refused a thread at the same moment: the lead makes the steps all the same."""
    start, caller = _thread.start_new_thread, threading.get_ident()
    started: list[int] = []
    caller_is_starting = threading.Event()

    def refuse_both(*args: Any) -> int:
        if not started:
            started.append(1)
            return start(*args)
        if threading.get_ident() != caller:
            caller_is_starting.wait(5.0)  # the calling thread has counted the threads that it is about to start
        elif not caller_is_starting.is_set():
            caller_is_starting.set()
            end = time.monotonic() + 5.0
            while fan_out._threads == 8 and time.monotonic() < end:  # the lead has taken them for threads that run
                time.sleep(0.01)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(_thread, "start_new_thread", refuse_both)
    seen: list[int] = []

    def work() -> Iterator[Any]:
        yield 0.0
        seen.append(1)

    fan_out = FanOut(work(), Deadline.after(20.0), 8, nothing)
    fan_out.run()
    assert seen == [1]


def test_a_step_that_fails_ends_the_run_with_its_error(threads: str) -> None:
    """An error that a step lets through is a defect: it comes out of `run` as it is, and nothing is left running."""

    def bad() -> Iterator[Any]:
        yield 0.0
        raise LookupError("a defect")

    def endless() -> Iterator[Any]:
        while True:
            yield 0.01

    def work() -> Iterator[Any]:
        yield [endless(), bad()]

    with pytest.raises(LookupError, match="^a defect$"):
        run(work())


def test_the_deadline_ends_what_waits(threads: str) -> None:
    """Work that waits beyond the deadline is given up at the deadline, without an error."""
    seen: list[str] = []

    def late() -> Iterator[Any]:
        yield LONG_S
        seen.append("late")

    def work() -> Iterator[Any]:
        seen.append("began")
        yield [late(), late()]

    began = time.monotonic()
    run(work(), timeout_s=0.2)
    assert time.monotonic() - began >= 0.2
    assert seen == ["began"]


def test_the_deadline_cuts_what_blocks() -> None:
    """A step that blocks is cut at the deadline, once, and no thread is left when `run` comes back."""
    before = threading.active_count()
    cut = threading.Event()
    cuts: list[int] = []

    def block() -> Iterator[Any]:
        yield 0.0
        assert cut.wait(LONG_S)

    def work() -> Iterator[Any]:
        yield [block() for _ in range(4)]

    def end_all() -> None:
        cuts.append(1)
        cut.set()

    run(work(), timeout_s=0.3, cut=end_all)
    assert cuts == [1]
    assert threading.active_count() == before


def test_nothing_is_cut_where_all_ended() -> None:
    """Work that ends in time is not cut, and leaves no thread."""
    before = threading.active_count()
    cuts: list[int] = []

    def work() -> Iterator[Any]:
        yield [iter([0.0]) for _ in range(20)]

    run(work(), cut=lambda: cuts.append(1))
    assert cuts == []
    assert threading.active_count() == before


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_steps_at_once_than_threads(limit: int) -> None:
    """At most `threads` steps are made at once, and all of them are used."""
    lock = threading.Lock()
    now = most = 0
    full = threading.Barrier(limit)

    def one() -> Iterator[Any]:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        full.wait(LONG_S)  # every thread must be here before one goes on
        with lock:
            now -= 1
        yield 0.0

    def work() -> Iterator[Any]:
        yield [one() for _ in range(limit * 4)]

    run(work(), threads=limit)
    assert most == limit


def test_a_hung_step_does_not_delay_the_others() -> None:
    """One step that blocks leaves the other pieces to run to their end."""
    cut, others = threading.Event(), threading.Semaphore(0)

    def hung() -> Iterator[Any]:
        for _ in range(10):
            assert others.acquire(timeout=LONG_S)
        yield 0.0

    def quick() -> Iterator[Any]:
        yield 0.0
        others.release()

    def work() -> Iterator[Any]:
        yield [hung(), *(quick() for _ in range(10))]

    run(work(), threads=4, cut=cut.set)
    assert not cut.is_set()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_the_calling_thread_comes_through_and_cuts(error: type[BaseException]) -> None:
    """F2: what interrupts the calling thread ends the run at once, cuts what blocks, and begins no further step."""
    cut = threading.Event()
    began: list[int] = []

    def block(number: int) -> Iterator[Any]:
        began.append(number)
        if len(began) == 2:
            fan_out.tell(interrupt)  # heard by the calling thread, as a signal handler would raise there
        assert cut.wait(LONG_S)
        yield 0.0
        began.append(100 + number)

    def work() -> Iterator[Any]:
        yield [block(number) for number in range(20)]

    def interrupt() -> None:
        raise error

    fan_out = FanOut(work(), Deadline.after(LONG_S), 2, cut.set)
    with pytest.raises(error):
        fan_out.run()
    assert cut.is_set()
    assert len(began) <= 2


def test_messages_are_heard_in_the_calling_thread_in_order(threads: str) -> None:
    """What steps tell is called in the calling thread, all of it, in order, before `run` comes back."""
    heard: list[tuple[int, int]] = []

    def work() -> Iterator[Any]:
        for number in range(20):
            fan_out.tell(lambda number=number: heard.append((number, threading.get_ident())))
            yield 0.0

    fan_out = FanOut(work(), Deadline.after(LONG_S), 4, nothing)
    fan_out.run()
    assert heard == [(number, threading.get_ident()) for number in range(20)]


def test_a_lone_thread_shares_its_time(threads: str) -> None:
    """F7: where one thread makes all steps, each may take the time left divided by those that wait; else it is not limited."""
    shares: list[float | None] = []

    def one() -> Iterator[Any]:
        shares.append(fan_out.share_s())
        yield 0.0

    def work() -> Iterator[Any]:
        yield [one() for _ in range(4)]

    fan_out = FanOut(work(), Deadline.after(LONG_S), 8, nothing)
    fan_out.run()
    if threads in ("usual", "executor refused"):
        assert shares == [None] * 4
    else:
        assert [round((share or 0) / LONG_S, 1) for share in shares] == [0.2, 0.2, 0.2, 0.2]


def test_a_thread_that_was_refused_once_does_not_shorten_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """F7: where threads can be had again, each step has its own again, and all its time."""
    submit, refused, short = ThreadPoolExecutor.submit, [1], []
    both = threading.Barrier(2)

    def refuse_once(*args: Any, **kwargs: Any) -> Any:
        if refused:
            refused.pop()
            monkeypatch.setattr(_thread, "start_new_thread", refuse)
            raise RuntimeError("can't start new thread")
        monkeypatch.setattr(_thread, "start_new_thread", start)
        return submit(*args, **kwargs)

    def one() -> Iterator[Any]:
        yield 0.0
        both.wait(LONG_S)  # there are two threads by now
        short.append(fan_out.is_short)

    def work() -> Iterator[Any]:
        short.append(fan_out.is_short)
        yield 0.0
        yield [one(), one()]

    start = _thread.start_new_thread
    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse_once)
    fan_out = FanOut(work(), Deadline.after(LONG_S), 8, nothing)
    fan_out.run()
    assert refused == []
    assert short == [True, False, False]


def test_what_only_directs_takes_no_turn() -> None:
    """The piece that spawns the others never blocks: with a thread for each of those, they may take all their time."""
    shares: list[float | None] = []
    began, looked = threading.Event(), threading.Event()

    def one() -> Iterator[Any]:
        began.set()
        while not fan_out._ready:  # the director is ready again
            time.sleep(0.001)
        shares.append(fan_out.share_s())
        looked.set()
        yield 0.0

    def director() -> Iterator[Any]:
        yield Spawn([one()])
        while not looked.is_set():
            yield 0.01

    fan_out = FanOut(director(), Deadline.after(LONG_S), 1, nothing)
    fan_out.run()
    assert shares == [None]


def test_a_run_inside_a_step_of_another_run() -> None:
    """A call made from inside a callback or another call's thread is a run of its own."""
    seen: list[str] = []

    def inner() -> Iterator[Any]:
        yield 0.0
        seen.append("inner")

    def outer() -> Iterator[Any]:
        run(inner())
        seen.append("outer")
        yield 0.0

    run(outer(), threads=1)
    assert seen == ["inner", "outer"]


def test_a_deadline_that_has_passed_runs_nothing_for_long() -> None:
    """With no time left `run` comes back; it does not wait for work."""

    def work() -> Iterator[Any]:
        while True:
            yield 0.0

    run(work(), timeout_s=0.0)
