"""The commands against a fleet on loopback: what reaches the servers, what is printed, and the exit status."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from abort_sync.cli import main
from abort_sync.cli._commands import COMMANDS
from abort_sync.testing import Behaviour, LocalFleet

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def fleet() -> Iterator[LocalFleet]:
    """Three workers, each with one generation of its own, and an agent server with two trials of one instance id."""
    with LocalFleet(workers=3) as made:
        for number, worker in enumerate(made.workers):
            worker.start_generation(f"rid-{number}")
        made.agent.start_runs("instance-1", 2)
        yield made


class Person(io.StringIO):
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


def run_json(capsys: Captured, *words: str) -> tuple[int, Any]:
    """Run a command with `--json` and read what it printed."""
    status = main([*words, "--json"])
    printed = capsys.readouterr()
    assert printed.err == ""
    return status, json.loads(printed.out)


def test_abort_reaches_every_worker_and_prints_a_table(fleet: LocalFleet, capsys: Captured) -> None:
    """One rid goes to each worker; the table has a line for each, and the status is 0."""
    assert main(["abort", "rid-1", "--router-url", fleet.router_url]) == 0
    assert [sorted(worker.running) for worker in fleet.workers] == [["rid-0"], [], ["rid-2"]]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["STATUS", "TARGET", "RID", "VIA", "HTTP", "TRIES", "SECONDS"]
    assert [line.split()[:3] for line in lines[1:4]] == [["ACCEPTED", url, "rid-1"] for url in fleet.worker_urls]
    assert "3 ACCEPTED" in lines[4]


def test_json_is_the_report(fleet: LocalFleet, capsys: Captured) -> None:
    """`--json` prints the report alone, one outcome a rid and worker."""
    status, report = run_json(capsys, "abort", "rid-0", "rid-1", "--router-url", fleet.router_url)
    assert status == 0
    assert report["ok"] is True
    assert [(one["rid"], one["target"]) for one in report["outcomes"]] == [
        (rid, url) for rid in ("rid-0", "rid-1") for url in fleet.worker_urls
    ]


def test_abort_until_idle_waits_for_the_load(fleet: LocalFleet, capsys: Captured) -> None:
    """`--until-idle` goes on until the workers report no work."""
    words = ["abort", "rid-0", "rid-1", "rid-2", "--until-idle", "--timeout", "30"]
    status, report = run_json(capsys, *words, "--router-url", fleet.router_url)
    assert status == 0
    assert {one["status"] for one in report["outcomes"]} == {"IDLE"}


def test_a_worker_that_fails_is_status_1_with_what_to_do(fleet: LocalFleet, capsys: Captured) -> None:
    """One dead worker: the others are aborted, the line says why, and a line says what to do."""
    fleet.workers[1].kill()
    assert main(["abort", "rid-0", "--router-url", fleet.router_url]) == 1
    printed = capsys.readouterr().out
    assert fleet.workers[0].running == frozenset()
    row = next(line for line in printed.splitlines() if line.startswith("UNREACHABLE") and fleet.workers[1].url in line)
    assert "refused" in row
    assert "UNREACHABLE: nothing arrived: is it running" in printed


def test_quiet_prints_only_what_is_not_well(fleet: LocalFleet, capsys: Captured) -> None:
    """`-q` is silent when all is well, and else names the failures alone."""
    assert main(["-q", "abort", "rid-0", "--router-url", fleet.router_url]) == 0
    printed = capsys.readouterr()
    assert printed.out + printed.err == ""
    fleet.workers[1].kill()
    assert main(["-q", "abort", "rid-2", "--router-url", fleet.router_url]) == 1
    printed = capsys.readouterr()
    assert printed.err == ""
    assert fleet.workers[1].url in printed.out
    assert fleet.workers[0].url not in printed.out


def test_nothing_could_be_tried_is_status_3(capsys: Captured) -> None:
    """A router that is not there is an error with no outcome: status 3, and the router is named."""
    with LocalFleet(workers=1) as fleet:
        fleet.router.kill()
        status, report = run_json(capsys, "abort", "r", "--router-url", fleet.router_url)
        assert status == 3
        assert report["outcomes"] == []
        assert fleet.router_url in report["error"]
        assert main(["workers", "--router-url", fleet.router_url]) == 3
        assert capsys.readouterr().err.startswith("abort-sync: error: ")
        status, found = run_json(capsys, "workers", "--router-url", fleet.router_url)
        assert (status, found["workers"]) == (3, [])
        assert "refused" in found["routers"][0]["error"]
        status, rows = run_json(capsys, "watch", "--once", "--router-url", fleet.router_url)
        assert status == 3
        assert fleet.router_url in rows[0]["why"]


@pytest.mark.parametrize("words", [["abort", "r"], ["workers"], ["watch", "--once"], ["teardown", "--rid", "r", "--timeout", "2"]])
def test_a_dead_router_points_to_the_doctor(words: list[str], capsys: Captured) -> None:
    """Every command that cannot learn the workers says what to do next."""
    with LocalFleet(workers=1) as fleet:
        fleet.router.kill()
        assert main([*words, "--router-url", fleet.router_url]) == 3
    printed = capsys.readouterr()
    assert "; abort-sync doctor, with the same options," in printed.out + printed.err


def test_abort_all_with_yes(fleet: LocalFleet, capsys: Captured) -> None:
    """`abort-all --yes` ends everything without asking."""
    assert run_json(capsys, "abort-all", "--yes", "--router-url", fleet.router_url)[0] == 0
    assert [worker.running for worker in fleet.workers] == [frozenset()] * 3


def test_abort_all_until_idle(fleet: LocalFleet, capsys: Captured) -> None:
    """`abort-all --until-idle` proves that the workers report no work."""
    status, report = run_json(capsys, "abort-all", "--yes", "--until-idle", "--router-url", fleet.router_url)
    assert status == 0
    assert {one["status"] for one in report["outcomes"]} == {"IDLE"}


@pytest.mark.parametrize(("answer", "is_sent"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_abort_all_asks_first(answer: str, is_sent: bool, fleet: LocalFleet, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """On a terminal the workers are named and a person must say yes; anything else sends nothing and is status 1."""
    monkeypatch.setattr(sys, "stdin", Person(answer))
    assert main(["abort-all", "--router-url", fleet.router_url]) == (0 if is_sent else 1)
    asked = capsys.readouterr().err
    assert "on these 3 workers? [y/N]" in asked
    assert all(url in asked for url in fleet.worker_urls)
    assert [bool(worker.running) for worker in fleet.workers] == [not is_sent] * 3
    assert is_sent or not any(request.method == "POST" for worker in fleet.workers for request in worker.requests)


def test_a_key_that_is_asked_for_is_asked_once(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """A command that also asks for consent reads the key one time only."""
    with LocalFleet(workers=1, worker_key="sesame") as fleet:
        asked = []

        def getpass(prompt: str) -> str:
            asked.append(prompt)
            return "sesame"

        monkeypatch.setattr("getpass.getpass", getpass)
        monkeypatch.setattr(sys, "stdin", Person("y\n"))
        assert main(["abort-all", "--router-url", fleet.router_url, "--worker-key-file", "-"]) == 0
        assert asked == ["worker key: "]


def test_flush_cancels_the_runs_and_prints_how_many(fleet: LocalFleet, capsys: Captured) -> None:
    """A flush needs no router; the count that the agent server gave is in the table."""
    assert main(["flush", "instance-1", "nobody", "--agent-server-url", fleet.agent_url or ""]) == 0
    assert fleet.agent.running == {}
    lines = capsys.readouterr().out.splitlines()
    assert "CANCELLED" in lines[0]
    assert [line.split()[1] for line in lines[1:3]] == ["instance-1", "nobody"]
    assert [line.split()[-1] for line in lines[1:3]] == ["2", "0"]


def test_flush_until_quiet_also_ends_what_was_queued(fleet: LocalFleet, capsys: Captured) -> None:
    """`--until-quiet` flushes again what started after the first flush."""
    fleet.agent.waiting("instance-1", 3)
    words = ["flush", "instance-1", "--until-quiet", "--timeout", "30", "--agent-server-url", fleet.agent_url or ""]
    status, report = run_json(capsys, *words)
    assert status == 0
    assert fleet.agent.running == {}
    assert report["outcomes"][0]["cancelled"] == 5


def test_teardown_does_both(fleet: LocalFleet, capsys: Captured) -> None:
    """`teardown` flushes the ids and sweeps the rids, in one report."""
    where = ["--router-url", fleet.router_url, "--agent-server-url", fleet.agent_url or ""]
    rids = [word for number in range(3) for word in ("--rid", f"rid-{number}")]
    status, report = run_json(capsys, "teardown", "--id", "instance-1", *rids, *where)
    assert status == 0
    assert [one["status"] for one in report["outcomes"]] == ["ACCEPTED", "IDLE", "IDLE", "IDLE"]
    assert fleet.agent.running == {}


def test_teardown_abort_all(fleet: LocalFleet, capsys: Captured) -> None:
    """`teardown --abort-all --yes` ends what nobody named."""
    assert run_json(capsys, "teardown", "--abort-all", "--yes", "--router-url", fleet.router_url)[0] == 0
    assert [worker.running for worker in fleet.workers] == [frozenset()] * 3


def test_settings_come_from_the_environment(fleet: LocalFleet, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """With the variables set, no option is needed."""
    monkeypatch.setenv("ABORT_SYNC_ROUTER_URL", fleet.router_url)
    assert run_json(capsys, "abort", "rid-0")[0] == 0
    monkeypatch.setenv("SWE_AGENT_URL", fleet.agent_url or "")
    assert run_json(capsys, "flush", "instance-1")[0] == 0


def test_keys_reach_the_servers_and_nothing_that_is_printed(tmp_path: Path, capsys: Captured) -> None:
    """Each key opens its own door, and stands in no line."""
    with LocalFleet(router_key="sesame-1", worker_key="sesame-2", worker_admin_key="sesame-3", agent_secret="sesame-4") as fleet:
        words = ["--router-url", fleet.router_url, "--agent-server-url", fleet.agent_url or "", "-vv"]
        for number, name in enumerate(("router-key", "worker-key", "worker-admin-key", "agent-secret"), 1):
            (tmp_path / name).write_text(f"sesame-{number}\n")
            words += [f"--{name}-file", str(tmp_path / name)]
        assert main(["teardown", "--id", "i", "--rid", "r", *words]) == 0
        assert main(["doctor", "--probe", *words]) == 0
        assert main(["workers", *words]) == 0
    printed = capsys.readouterr()
    assert printed.err
    assert "sesame" not in printed.out + printed.err


def test_workers_tells_how_they_were_learned(fleet: LocalFleet, capsys: Captured) -> None:
    """`workers` lists each worker with its source, and what the router speaks."""
    given = "http://127.0.0.1:9"
    assert main(["workers", "--router-url", fleet.router_url, "--worker-url", given]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:5]] == [[url, "router"] for url in fleet.worker_urls] + [[given, "given"]]
    assert f"{fleet.router_url} speaks GET /workers, lists 3" in lines
    status, found = run_json(capsys, "workers", "--router-url", fleet.router_url)
    assert status == 0
    assert [one["url"] for one in found["workers"]] == list(fleet.worker_urls)


def test_no_worker_is_not_well(capsys: Captured) -> None:
    """An empty listing is status 1 and says what to wait for."""
    with LocalFleet(workers=0) as fleet:
        assert main(["workers", "--router-url", fleet.router_url]) == 1
        assert "no worker is listed yet" in capsys.readouterr().err
        assert run_json(capsys, "workers", "--router-url", fleet.router_url)[0] == 1
        assert main(["watch", "--once", "--router-url", fleet.router_url]) == 1
        assert "no worker is listed yet" in capsys.readouterr().out
        assert main(["abort", "r", "--router-url", fleet.router_url]) == 3
        printed = capsys.readouterr().out
        assert f"no worker is listed by {fleet.router_url}; abort-sync doctor" in printed
        assert "allow_empty" not in printed


def test_a_part_of_the_workers_is_not_well(fleet: LocalFleet, capsys: Captured) -> None:
    """With one of two routers away, what is known is printed, used, and not called well; notes are printed too."""
    listed = [fleet.worker_urls[0], 7]
    fleet.router.behave(Behaviour.answer(body=json.dumps({"workers": listed})), path="/workers")
    with LocalFleet(workers=1) as other:
        other.router.kill()
        words = ["--router-url", fleet.router_url, "--router-url", other.router_url, "--timeout", "30"]
        assert main(["workers", *words]) == 1
        printed = capsys.readouterr()
        assert fleet.worker_urls[0] in printed.out
        assert "\nnote: " in printed.out
        assert other.router_url in printed.err
        assert main(["abort", "rid-0", *words]) == 1
        printed = capsys.readouterr()
        assert f"ACCEPTED  {fleet.worker_urls[0]}" in printed.out
        assert "\nnote: " in printed.out
        assert f"\nerror: the workers of {other.router_url} cannot be learned" in printed.out
        assert main(["watch", "--once", "--router-url", other.router_url]) == 3
        assert other.router_url in capsys.readouterr().err


def test_watch_once_prints_the_loads(fleet: LocalFleet, capsys: Captured) -> None:
    """`watch --once` prints each worker's load and ends; a load that cannot be read is status 1 and no number."""
    fleet.workers[0].start_generation()
    assert main(["watch", "--once", "--router-url", fleet.router_url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1:3] for line in lines[1:]] == [[url, n] for url, n in zip(fleet.worker_urls, ("2", "1", "1"))]
    fleet.workers[2].kill()
    assert main(["watch", "--once", "--router-url", fleet.router_url]) == 1
    assert capsys.readouterr().out.splitlines()[3].split()[1:3] == [fleet.worker_urls[2], "?"]


def test_watch_goes_on_until_ctrl_c(fleet: LocalFleet, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """`watch` looks again after the interval, also when the router was away; Ctrl-C ends it with 130."""
    naps = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 1:
            fleet.router.kill()
        elif len(naps) == 2:
            fleet.router.revive()
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("abort_sync.cli._looks.sleep", sleep)
    words = ["watch", "--json", "--interval", "7", "--router-url", fleet.router_url]
    assert main(words) == 130
    printed = capsys.readouterr()
    assert printed.err == "abort-sync: error: interrupted\n"
    looks = [json.loads(line) for line in printed.out.splitlines()]
    assert naps == [7.0] * 3
    assert [len(look) for look in looks] == [3, 1, 3]
    assert looks[1][0]["worker"] == "?"


def test_ctrl_c_is_130_and_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """Ctrl-C while a command works ends with 130 and no traceback."""

    def interrupted(options: object, screen: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(COMMANDS, "workers", interrupted)
    assert main(["workers"]) == 130
    assert capsys.readouterr().err == "abort-sync: error: interrupted\n"


def test_ctrl_c_at_a_question_does_not_speak_of_what_was_sent(fleet: LocalFleet, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """Before anything was sent there is nothing that stays sent."""

    class Impatient(Person):
        def readline(self, size: int | None = -1, /) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Impatient())
    assert main(["abort-all", "--router-url", fleet.router_url]) == 130
    assert capsys.readouterr().err.endswith("abort-sync: error: interrupted\n")


def test_progress_is_plain_lines_without_a_terminal(fleet: LocalFleet, capsys: Captured) -> None:
    """While it works, each new state of a server is one line on standard error, and the same state is not said again."""
    fleet.workers[2].behave(Behaviour.answer(500))
    assert main(["abort", "rid-0", "rid-1", "--router-url", fleet.router_url, "--timeout", "30"]) == 1
    news = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert news[0] == ["list", fleet.router_url, "HTTP", "200"]
    expected = [["abort", url, "HTTP", answer] for url, answer in zip(fleet.worker_urls, ("200", "200", "500"))]
    assert sorted(news[1:]) == sorted(expected)


def test_verbose_logs_and_leaves_logging_as_it_was(fleet: LocalFleet, capsys: Captured) -> None:
    """`-v` shows the library's log for this command only; without it nothing is logged twice."""
    logger = logging.getLogger("abort_sync")
    before = (logger.level, list(logger.handlers))
    fleet.workers[1].kill()
    words = ["abort", "rid-0", "--json", "--router-url", fleet.router_url]
    assert main(words) == 1
    assert capsys.readouterr().err == ""
    assert main([*words, "-v"]) == 1
    assert "WARNING abort_sync: " in capsys.readouterr().err
    assert (logger.level, logger.handlers) == before


def test_it_runs_in_a_thread(fleet: LocalFleet, capsys: Captured) -> None:
    """`main` needs no main thread: no signal handler is set."""
    statuses = []
    thread = threading.Thread(target=lambda: statuses.append(main(["abort", "rid-0", "--router-url", fleet.router_url])))
    thread.start()
    thread.join(60)
    assert statuses == [0]
