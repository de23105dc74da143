"""The guard: it aborts when the block fails, twice, and never hides why it failed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from abort_sync import AbortClient, AbortGuard, ConfigurationError, Outcome, Report, Status
from abort_sync import _guard as guard_room


class Aborts:
    """Stands for the client's `abort_requests`: gives one report after the other, or raises it."""

    def __init__(self, *reports: Report | BaseException) -> None:
        self.reports = list(reports)
        self.log: list[Any] = []

    def __call__(self, rids: Sequence[str]) -> Report:
        self.log.append(list(rids))
        report = self.reports.pop(0) if self.reports else report_of(Status.ACCEPTED)
        if isinstance(report, BaseException):
            raise report
        return report


def report_of(*statuses: Status, **more: Any) -> Report:
    outcomes = tuple(Outcome(f"http://{number}:1", "router", "r", status) for number, status in enumerate(statuses))
    return Report("abort_requests", outcomes, elapsed_s=1.0, **more)


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(guard_room.time, "sleep", slept.append)
    return slept


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt(), SystemExit(3), TimeoutError(), GeneratorExit()], ids=repr)
def test_any_exception_aborts_twice_and_goes_on_unchanged(error: BaseException, no_sleep: list[float]) -> None:
    """Whatever ends the block, its rids are aborted, and once more 0.2 s later; the exception is the very same."""
    aborts = Aborts()
    with pytest.raises(type(error)) as caught, AbortGuard(aborts, ["r1", "r2"]) as guard:
        raise error
    assert caught.value is error
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert aborts.log == [["r1", "r2"], ["r1", "r2"]]
    assert no_sleep == [0.2]
    assert guard.report is not None
    assert guard.report.ok
    assert guard.report.operation == "abort_on_exit"


def test_a_block_that_ends_well_sends_nothing(no_sleep: list[float]) -> None:
    """A block that ends without an exception, also by return, sends nothing and has no report."""
    aborts = Aborts()
    guard = AbortGuard(aborts, ["r1"])

    def block() -> int:
        with guard:
            return 7

    assert block() == 7
    assert (aborts.log, guard.report, no_sleep) == ([], None, [])


def test_a_block_without_rids_sends_nothing() -> None:
    """Without a rid there is nothing to abort."""
    aborts = Aborts()
    with pytest.raises(ValueError), AbortGuard(aborts, []) as guard:
        raise ValueError
    assert (aborts.log, guard.report) == ([], None)


def test_rids_are_added_inside_the_block() -> None:
    """`add` gives the rid back and has it aborted too; a rid that is not usable is refused there."""
    aborts = Aborts()
    with pytest.raises(LookupError), AbortGuard(aborts, ["r1"]) as guard:
        assert guard.add("r2") == "r2"
        with pytest.raises(ConfigurationError):
            guard.add(" ")
        raise LookupError
    assert aborts.log == [["r1", "r2"]] * 2


@pytest.mark.parametrize(
    "failures", [(RuntimeError("first"),), (report_of(Status.ACCEPTED), RuntimeError("second"))], ids=["first", "second"]
)
def test_a_failing_abort_is_logged_and_hides_nothing(caplog: pytest.LogCaptureFixture, failures: tuple[Any, ...]) -> None:
    """The abort's own failure is a warning in the log; the block's exception goes on."""
    with pytest.raises(ValueError, match="^mine$"), AbortGuard(Aborts(*failures), ["r"], logging.getLogger("own")) as guard:
        raise ValueError("mine")
    assert [(one.name, one.levelname) for one in caplog.records] == [("own", "WARNING")]
    assert "the abort of a failed block failed itself" in caplog.text
    assert (guard.report is None) == (len(failures) == 1)


def test_an_interrupt_of_the_abort_itself_comes_through() -> None:
    """Ctrl-C while the guard aborts is not swallowed; the block's exception is its context."""
    with pytest.raises(KeyboardInterrupt) as caught, AbortGuard(Aborts(KeyboardInterrupt()), ["r"]):
        raise ValueError("mine")
    assert isinstance(caught.value.__context__, ValueError)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (Status.ACCEPTED, Status.ACCEPTED, Status.ACCEPTED),
        (Status.ACCEPTED, Status.UNREACHABLE, Status.ACCEPTED),
        (Status.UNKNOWN, Status.ACCEPTED, Status.ACCEPTED),
        (Status.UNKNOWN, Status.UNREACHABLE, Status.UNREACHABLE),
    ],
)
def test_the_report_holds_the_better_of_two_outcomes(first: Status, second: Status, both: Status) -> None:
    """Of two outcomes of a rid at a worker the better one stands, the later one where none is ok; times are added."""
    with pytest.raises(ValueError), AbortGuard(Aborts(report_of(first), report_of(second)), ["r"]) as guard:
        raise ValueError
    assert guard.report is not None
    assert [one.status for one in guard.report.outcomes] == [both]
    assert guard.report.elapsed_s == pytest.approx(2.2)


def test_workers_of_only_one_listing_are_both_reported() -> None:
    """A worker that is listed the first or the second time only has its outcome; notes come once; an error must hold twice."""
    reports = report_of(Status.ACCEPTED, error="down", notes=("n",)), report_of(Status.ACCEPTED, Status.UNKNOWN, notes=("n", "m"))
    with pytest.raises(ValueError), AbortGuard(Aborts(*reports), ["r"]) as guard:
        raise ValueError
    report = guard.report
    assert report is not None
    assert [(one.target, one.status) for one in report.outcomes] == [("http://0:1", Status.ACCEPTED), ("http://1:1", Status.UNKNOWN)]
    assert (report.notes, report.error) == (("n", "m"), None)


def test_the_clients_guard_checks_before_the_block() -> None:
    """A rid that is not usable, or a client without workers, is refused before the block begins."""
    with pytest.raises(ConfigurationError, match="rid is empty"):
        AbortClient("http://h:1").abort_on_exit("r1", "")
    with pytest.raises(ConfigurationError, match="no router_url"):
        AbortClient(agent_server_url="http://h:1").abort_on_exit("r1")
