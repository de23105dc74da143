"""The drop-in functions: they return a report always, and only a wrong type raises."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from abort_sync import AbortClient, ConfigurationError, Keys, Outcome, Report, Status, abort, abort_sglang_request, teardown
from abort_sync import _hooks as hooks_room

ARGS = {"session_server_instance_ids": {"a": "id-1", "b": "id-2"}, "sglang_router_ip": "10.0.0.1", "sglang_router_port": 3000}
ONE_ID = {"session_server_instance_id": "x"}


class Calls:
    """Stands for every client: keeps how each was made and called, and returns one report."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self.called: list[tuple[Any, ...]] = []
        self.report = Report("the client's", (Outcome("t", None, None, Status.ACCEPTED),))

    def client(self, router_url: Any = None, **kwargs: Any) -> SimpleNamespace:
        AbortClient(router_url, **kwargs)  # the real one checks
        self.made.append({**kwargs, **({"router_url": router_url} if router_url else {})})

        def answer(name: str) -> Callable[..., Report]:
            def method(*args: Any, **more: Any) -> Report:
                self.called.append((name, *args, *([more] if more else [])))
                return self.report

            return method

        return SimpleNamespace(flush=answer("flush"), abort_request=answer("abort_request"), teardown=answer("teardown"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(hooks_room, "AbortClient", calls.client)
    return calls


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="abort_sync")


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    return [(one.name, one.levelname, one.getMessage()) for one in caplog.records]


def test_abort_flushes_every_id_at_the_server_of_the_environment(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """C1, C8: all ids of `args` go in one flush to AGENT_SERVER_URL with HARBOR_ADMIN_SECRET, read at the call."""
    monkeypatch.setenv("AGENT_SERVER_URL", "http://agents:9")
    monkeypatch.setenv("HARBOR_ADMIN_SECRET", "g")
    report = abort(ARGS)
    assert calls.made == [{"agent_server_url": "http://agents:9", "keys": Keys(agent="g")}]
    assert calls.called == [("flush", ["id-1", "id-2"])]
    assert (report.operation, report.outcomes) == ("abort", calls.report.outcomes)


@pytest.mark.parametrize(
    ("call", "operation", "text"),
    [
        (lambda: abort(ARGS), "abort", "no agent server URL: set AGENT_SERVER_URL"),
        (lambda: abort({}), "abort", "(session_server_instance_ids, session_server_instance_id): nothing to flush"),
        (lambda: abort(SimpleNamespace(session_server_instance_id="")), "abort", "args name no instance id"),
        (lambda: abort_sglang_request(None, "r"), "abort_sglang_request", "no router URL was given: nothing to abort at"),
        (lambda: abort_sglang_request(" ", "r"), "abort_sglang_request", "no router URL was given"),
        (lambda: abort_sglang_request("http://h:1", None), "abort_sglang_request", "no rid was given: nothing to abort"),
        (lambda: abort_sglang_request("http://h:1", " "), "abort_sglang_request", "no rid was given"),
        (lambda: abort_sglang_request("ftp://h:1", "r"), "abort_sglang_request", "only http and https can be used"),
        (lambda: abort_sglang_request("http://a b", "r"), "abort_sglang_request", "holds a space"),
        (lambda: teardown({}), "teardown", "args name no instance id, and neither rids nor abort_all=True was given: nothing to tear down"),
        (lambda: teardown(ARGS), "teardown", "no agent server URL: set AGENT_SERVER_URL"),
        (
            lambda: teardown({}, rids=["r"]),
            "teardown",
            "no router URL: set args.sglang_router_ip and sglang_router_port, or ABORT_SYNC_ROUTER_URL",
        ),
        (lambda: teardown({}, abort_all=True), "teardown", "no router URL"),
        (lambda: teardown(ONE_ID, abort_all=True), "teardown", "no agent server URL: set AGENT_SERVER_URL; no router URL"),
    ],
)  # fmt: skip
def test_nothing_to_do_is_a_report_and_a_line_at_info(
    call: Callable[[], Report], operation: str, text: str, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    """No URL, no ids, no rid: a report that is not ok and says so, one line at INFO, and nothing is called."""
    report = call()
    assert (report.operation, report.ok, report.outcomes) == (operation, False, ())
    assert text in str(report.error)
    assert said(caplog) == [("abort_sync", "INFO", f"{operation}: {report.error}")]
    assert calls.called == []


@pytest.mark.parametrize("url", ["AGENT_SERVER_URL", "SWE_AGENT_URL"])
def test_a_bad_url_in_the_environment_is_a_report(url: str, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL or a key from the environment that cannot be used is `error`, without its secret parts."""
    monkeypatch.setenv(url, "ftp://u:hunter2@h")
    for call in (abort, teardown):
        assert "only http and https" in str(call(ARGS).error)
        assert "hunter2" not in str(call(ARGS))
    monkeypatch.setenv(url, "http://h:1")
    monkeypatch.setenv("HARBOR_ADMIN_SECRET", "hunter2\x01")
    for call in (abort, teardown):
        assert "keys.agent holds a control" in str(call(ARGS).error)
        assert "hunter2" not in str(call(ARGS))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: abort("rid-1"), "abort_sglang_request(url, rid)"),
        (lambda: abort(None), "args must be the driver's arguments"),
        (lambda: abort({"session_server_instance_ids": 7}), "instance ids must be strings"),
        (lambda: abort_sglang_request(7, "r"), "sglang_url must be a string, not int: abort_sglang_request(url, rid)"),
        (lambda: abort_sglang_request("http://h", ["r"]), "rid must be a string, not list"),
        (lambda: abort_sglang_request("http://h", "r", "log"), "logger must be a logging.Logger or None, not str"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: teardown("rid-1"), "abort_sglang_request(url, rid)"),
        (lambda: teardown({"session_server_instance_id": 7}), "instance ids must be strings"),
        (lambda: teardown({**ARGS, "sglang_router_port": None}, rids=["r"]), "must be a host and a port"),
    ],
)
def test_a_wrong_type_raises(call: Callable[[], Report], text: str, calls: Calls) -> None:
    """Only misuse raises, before anything is sent, and says which function was meant."""
    with pytest.raises(ConfigurationError) as caught:
        call()
    assert text in str(caught.value)
    assert calls.called == []


@pytest.mark.parametrize("rids", ["r1", [7], [""], 7], ids=repr)
def test_rids_of_a_teardown_are_checked(rids: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One string for a list, a number, or a blank rid is refused before any packet, whether or not there are URLs and ids."""
    for args in ({}, ARGS):
        with pytest.raises(ConfigurationError, match="^rids? "):
            teardown(args, rids=rids)
        monkeypatch.setenv("AGENT_SERVER_URL", "http://127.0.0.1:9")


@pytest.mark.parametrize("abort_all", ["false", 1, None], ids=repr)
def test_abort_all_of_a_teardown_is_true_or_false(abort_all: Any, calls: Calls) -> None:
    """A word from a settings file is not taken for "abort everything"."""
    with pytest.raises(ConfigurationError, match="^abort_all must be True or False"):
        teardown(ARGS, abort_all=abort_all)
    assert calls.called == []


def test_one_request_is_aborted_within_five_seconds(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocking twin of the router abort: the URL, the keys of the environment, 5 s in all."""
    monkeypatch.setenv("ABORT_SYNC_WORKER_KEY", "w")
    monkeypatch.setenv("ABORT_SYNC_ROUTER_URL", "http://other:1")
    report = abort_sglang_request("http://router:1", "rid-1")
    assert calls.made == [{"router_url": "http://router:1", "keys": Keys(worker="w"), "timeout_s": 5.0}]
    assert calls.called == [("abort_request", "rid-1")]
    assert report.operation == "abort_sglang_request"


def test_the_given_logger_is_told_of_what_is_not_ok(calls: Calls, caplog: pytest.LogCaptureFixture) -> None:
    """A logger given to the drop-in gets a warning for each target that is not ok and for the error; nothing when all is well."""
    own = logging.getLogger("own")
    abort_sglang_request("http://router:1", "r", own)
    assert said(caplog) == []
    calls.report = Report(
        "x", (Outcome("t", None, "r", Status.UNKNOWN), Outcome("u", None, "r", Status.ACCEPTED)), error="a router is down"
    )
    abort_sglang_request("http://router:1", "r", own)
    assert [(name, level) for name, level, _ in said(caplog)] == [("own", "WARNING")] * 2
    assert "UNKNOWN" in caplog.text
    assert "a router is down" in caplog.text


ROUTER = ["http://10.0.0.1:3000"]
AGENT = "http://agents:9"
BOTH = {"router_url": ROUTER, "agent_server_url": AGENT}


@pytest.mark.parametrize(
    ("args", "kwargs", "env", "made", "called", "error"),
    [
        (ARGS, {}, {"AGENT_SERVER_URL": AGENT}, BOTH, (["id-1", "id-2"], (), False), None),
        (ARGS, {"rids": iter(["r"])}, {"AGENT_SERVER_URL": AGENT}, BOTH, (["id-1", "id-2"], ["r"], False), None),
        (ARGS, {"abort_all": True}, {"AGENT_SERVER_URL": AGENT}, BOTH, (["id-1", "id-2"], (), True), None),
        (ARGS, {"rids": ["r"]}, {}, {"router_url": ROUTER}, ((), ["r"], False), "no agent server URL: set AGENT_SERVER_URL"),
        (ARGS, {"abort_all": True}, {}, {"router_url": ROUTER}, ((), (), True), "no agent server URL: set AGENT_SERVER_URL"),
        (ONE_ID, {"rids": ["r"]}, {"AGENT_SERVER_URL": AGENT}, {"agent_server_url": AGENT}, (["x"], (), False), "no router URL"),
        ({}, {"rids": ["r"]}, {"ABORT_SYNC_ROUTER_URL": "http://e:1"}, {"router_url": ["http://e:1"]}, ((), ["r"], False), None),
        ({"rollout_external_engine_addrs": ["w:1"]}, {"rids": ["r"]}, {}, {"worker_urls": ["w:1"]}, ((), ["r"], False), None),
    ],
)  # fmt: skip
def test_a_teardown_does_all_that_it_can(
    args: Any, kwargs: Any, env: Any, made: Any, called: Any, error: str | None, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has its URL is done; what has none is the report's error, and the report is then not ok."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    report = teardown(args, **kwargs)
    assert calls.made == [{**made, "keys": Keys()}]
    ids, rids, abort_all = called
    assert calls.called == [("teardown", ids, {"rids": rids, "abort_all": abort_all})]
    assert (report.error is None) if error is None else str(report.error).startswith(error)
    assert report.ok is (error is None)


def test_abort_all_goes_before_rids(calls: Calls) -> None:
    """With abort_all=True the rids are part of everything, and everything is asked for once."""
    teardown(ARGS, rids=["r"], abort_all=True)
    assert calls.called == [("teardown", (), {"rids": (), "abort_all": True})]
