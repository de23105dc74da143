"""Reports: ok or not, pickle, JSON and the text for a log."""

from __future__ import annotations

import json
import logging
import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abort_sync import AbortIncompleteError, Attempt, Outcome, Report, Status
from abort_sync._report import MAX_LOGGED, log_failures

GOOD = (Status.ACCEPTED, Status.IDLE)
TEXT = st.text("aZ0 \n\t\x00\"'\\é漢😀\u2028", max_size=20)
SECONDS = st.floats(0, 1e6)
ATTEMPTS = st.builds(Attempt, st.integers(1, 3), SECONDS, st.none() | st.integers(100, 599), st.none() | TEXT)
OUTCOMES = st.builds(
    Outcome,
    target=TEXT,
    via=st.sampled_from([None, "router", "direct", "given", "last_known"]),
    rid=st.none() | TEXT,
    status=st.sampled_from(Status),
    http_status=st.none() | st.integers(100, 599),
    attempts=st.lists(ATTEMPTS, max_size=3).map(tuple),
    elapsed_s=SECONDS,
    error=st.none() | TEXT,
    cancelled=st.none() | st.integers(0, 99),
    remaining=st.none() | st.integers(0, 99),
)
REPORTS = st.builds(
    Report, TEXT, st.lists(OUTCOMES, max_size=4).map(tuple), st.none() | TEXT, st.lists(TEXT, max_size=2).map(tuple), SECONDS, st.booleans()
)
STABLE = settings(derandomize=True, deadline=None, database=None, max_examples=20)


def outcome(status: Status, target: str = "http://10.0.0.1:30000", **more: object) -> Outcome:
    return replace(Outcome(target, "router", "r1", status), **more)  # type: ignore[arg-type]  # any field by name


@pytest.mark.parametrize("status", Status)
def test_only_accepted_and_idle_are_ok(status: Status) -> None:
    """One target that is neither ACCEPTED nor IDLE makes the report not ok, and stands in `failures`."""
    bad = outcome(status, "http://10.0.0.2:30000")
    report = Report("abort_request", (outcome(Status.ACCEPTED), bad))
    assert (bad.ok, report.ok) == (status in GOOD, status in GOOD)
    assert report.failures == (() if status in GOOD else (bad,))


@pytest.mark.parametrize(
    ("report", "is_ok"),
    [
        (Report("abort_all"), False),
        (Report("abort_all", is_empty_ok=True), True),
        (Report("abort_all", is_empty_ok=True, error="the router is down"), False),
        (Report("abort_all", (outcome(Status.ACCEPTED),), error="one of two routers is down"), False),
        (Report("abort_all", (outcome(Status.ACCEPTED),), notes=("rewritten",)), True),
        (Report("abort_all", (outcome(Status.UNKNOWN),), is_empty_ok=True), False),
    ],
)
def test_nothing_done_is_not_ok(report: Report, is_ok: bool) -> None:
    """A report without outcomes is ok only where that was allowed, and one with an error never is; notes do not matter."""
    assert report.ok is is_ok


def test_raise_if_incomplete_raises_the_report_or_nothing() -> None:
    """`raise_if_incomplete` is silent on a report that is ok, and else raises an error that holds the report."""
    Report("abort_all", (outcome(Status.IDLE),)).raise_if_incomplete()
    report = Report("abort_all", (outcome(Status.BUSY, remaining=3),))
    with pytest.raises(AbortIncompleteError) as caught:
        report.raise_if_incomplete()
    assert caught.value.report is report


@STABLE
@given(REPORTS)
def test_a_report_survives_pickle_and_json(report: Report) -> None:
    """Whatever stands in a report, a pickle gives it back and its dict is what JSON gives back."""
    assert pickle.loads(pickle.dumps(report)) == report
    as_dict = report.to_dict()
    assert json.loads(json.dumps(as_dict)) == as_dict


@STABLE
@given(REPORTS)
def test_the_dict_holds_every_value(report: Report) -> None:
    """The dict has each field of the report, its outcomes and its attempts, and the two claims of ok."""
    as_dict = report.to_dict()
    assert list(as_dict) == ["ok", "operation", "outcomes", "error", "notes", "elapsed_s"]
    assert (as_dict["ok"], as_dict["notes"], len(as_dict["outcomes"])) == (report.ok, list(report.notes), len(report.outcomes))
    for one, its in zip(report.outcomes, as_dict["outcomes"]):
        again = {**its, "status": Status(its["status"]), "attempts": tuple(Attempt(**attempt) for attempt in its["attempts"])}
        assert again.pop("ok") is one.ok
        assert Outcome(**again) == one


@STABLE
@given(REPORTS)
def test_text_never_fails(report: Report) -> None:
    """Any report can be printed, and the first line says whether it is ok."""
    assert ("NOT OK" not in report.summary()) == report.ok
    assert str(report).startswith(report.summary())


def test_the_text_for_a_log() -> None:
    """A person reads what was called, how it went, and each target with what matters about it."""
    report = Report(
        "teardown",
        (
            outcome(Status.ACCEPTED, "trial-1", via=None, rid=None, http_status=200, cancelled=2),
            outcome(Status.IDLE, rid=None, remaining=0, http_status=200),
            outcome(Status.UNREACHABLE, via="direct", attempts=(Attempt(1, 0.1), Attempt(2, 0.1)), error="connection refused"),
        ),
        error="one router is down",
        notes=("a worker was rewritten",),
        elapsed_s=1.234,
    )
    assert str(report).splitlines() == [
        "teardown: NOT OK in 1.23 s, 1 ACCEPTED, 1 IDLE, 1 UNREACHABLE",
        "  error: one router is down",
        "  ACCEPTED     trial-1  HTTP 200  cancelled=2",
        "  IDLE         http://10.0.0.1:30000  HTTP 200  remaining=0",
        "  UNREACHABLE  http://10.0.0.1:30000  rid=r1  via=direct  attempts=2  (connection refused)",
        "  note: a worker was rewritten",
    ]
    assert str(Report("flush", error="no ids")) == "flush: NOT OK in 0.00 s, no targets\n  error: no ids"


@pytest.mark.parametrize("status", Status)
def test_a_status_is_its_name(status: Status) -> None:
    """A status compares, prints and travels as its name, on every Python."""
    assert (status.value, str(status), f"{status}", status == status.name) == (status.name, status.name, status.name, True)
    assert json.dumps(status) == f'"{status.name}"'


def test_a_report_is_a_value() -> None:
    """Reports, outcomes and attempts are frozen; another name or error is another report."""
    report = Report("flush", error="a")
    for frozen, name in ((report, "error"), (outcome(Status.IDLE), "status"), (Attempt(1, 0.0), "number")):
        with pytest.raises(AttributeError):
            setattr(frozen, name, None)
    assert report.renamed("abort") == Report("abort", error="a")
    assert report.with_error("b") == Report("flush", error="a; b")
    assert Report("flush").with_error("b") == Report("flush", error="b")
    assert report.error == "a"


def test_of_many_failures_the_log_names_the_first_and_counts_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    """A fleet that is down fills no log: the error, so many targets by name, and how many more there are; what is ok is not told."""
    down = [outcome(Status.UNREACHABLE, f"http://10.0.0.{n}:30000") for n in range(MAX_LOGGED + 3)]
    log = logging.getLogger("any")
    log_failures(Report("abort_all", (*down[:MAX_LOGGED], outcome(Status.IDLE))), log)
    assert [one.getMessage() for one in caplog.records] == [f"abort_all: {one}" for one in down[:MAX_LOGGED]]
    caplog.clear()
    log_failures(Report("abort_all", tuple(down), error="a router is down"), log)
    assert [one.getMessage() for one in caplog.records] == [
        "abort_all: a router is down",
        *(f"abort_all: {one}" for one in down[:MAX_LOGGED]),
        "abort_all: 3 more targets are not ok: the report has them",
    ]
    assert {one.levelname for one in caplog.records} == {"WARNING"}


def test_a_rid_forges_no_line() -> None:
    """A rid with a line break stays on its line."""
    report = Report("abort_request", (Outcome("http://w:1", None, "a\n  ACCEPTED     http://w:2", Status.UNKNOWN),))
    assert len(str(report).splitlines()) == 2
