"""F1, F3: what happens when the interpreter ends."""

from __future__ import annotations

import pytest
from run_child import child, run

from abort_sync.testing import Behaviour, LocalFleet


def rids(fleet: LocalFleet) -> list[list[str]]:
    return [[one.json["rid"] for one in worker.requests] for worker in fleet.workers]


@pytest.mark.parametrize("case", ["at_exit", "after_the_main_thread"])
def test_aborts_are_delivered_at_the_end_of_the_interpreter(fleet: LocalFleet, case: str) -> None:
    """From `atexit`, and from a thread that outlives the main thread, the aborts are delivered, each once."""
    seen = run("child_ends", case, fleet.worker_urls)
    assert seen["report"]["ok"], seen
    assert rids(fleet) == [["last"], ["last"]]


@pytest.mark.parametrize("case", ["at_exit", "after_the_main_thread"])
def test_a_first_use_at_the_end_of_the_interpreter_is_delivered(fleet: LocalFleet, case: str) -> None:
    """Also where the package was imported but not used before, so that most of it is loaded only then."""
    assert run("child_ends_lazily", case, fleet.worker_urls) == {"ok": True}
    assert rids(fleet) == [["last"], ["last"]]


@pytest.mark.parametrize("case", ["deleted_as_a_global", "deleted_in_a_cycle"])
def test_del_during_shutdown_neither_hangs_nor_prints_a_traceback(fleet: LocalFleet, case: str) -> None:
    """A call in `__del__` while the interpreter is torn down sends nothing, comes back at once, and its report says why."""
    report = run("child_ends", case, fleet.worker_urls)["report"]
    assert report["elapsed_s"] < 4.0, report  # of 8
    assert report["statuses"] == ["NOT_SENT", "NOT_SENT"]
    assert all("shutting down" in one for one in [report["error"], *report["errors"]]), report
    assert "last" not in sum(rids(fleet), [])


def test_del_while_the_standard_library_is_torn_down_does_not_hang_either(fleet: LocalFleet) -> None:
    """Where an object lives on in another module, `time` or `threading` may be gone: there is still a report, and no traceback."""
    with child("child_ends", "deleted_with_the_standard_library", fleet.worker_urls) as one:
        ended = one.end()
    assert (ended.code, ended.stderr) == (0, ""), ended
    used_at = ended.seen.pop("used_at")
    modules = ("signal", "time", "threading", "logging", "json", "os", "builtins")
    operations = ("abort_request", "abort_all_until_idle", "flush", "teardown", "abort_sglang_request")
    assert set(ended.seen) == {f"{module} {operation}" for module in modules for operation in operations}
    assert not any(one["ok"] for one in ended.seen.values())
    assert all("shutting down" in one["error"] for one in ended.seen.values()), ended.seen
    assert rids(fleet) == [["first"], ["first"]]
    assert ended.at - used_at < 6.0  # of 8


def test_del_of_a_client_that_was_never_used_is_no_traceback_either(fleet: LocalFleet) -> None:
    """Most of this package is then loaded, or not, only while the interpreter ends, and its own names may be None."""
    run("child_ends_unused", "deleted", fleet.worker_urls)  # which sees that it ends well and prints no error
    assert rids(fleet) == [[], []]


@pytest.mark.parametrize("case", ["after_a_deadline", "after_a_resolver_that_hangs"])
def test_a_hung_call_does_not_hold_the_exit(fleet: LocalFleet, case: str) -> None:
    """After a deadline of 1 s has passed over a worker or a resolver that hangs, the process ends within a second."""
    fleet.workers[0].behave(Behaviour.hang())
    with child("child_ends", case, fleet.worker_urls) as one:
        ended = one.end()
    assert (ended.code, ended.stderr) == (0, ""), ended
    assert ended.seen["statuses"][:2] == ["UNKNOWN", "ACCEPTED"]
    assert ended.seen["elapsed_s"] < 5.0
    assert ended.at - ended.seen["back_at"] < 5.0  # far below the limits of the attempts that hang
