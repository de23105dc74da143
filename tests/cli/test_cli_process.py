"""The command line as a process: the demo, a terminal, a pipe that closes, Ctrl-C, and life without rich."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time

import pytest
from conftest import Child

from abort_sync.cli import main
from abort_sync.testing import Behaviour, LocalFleet

WITHOUT_RICH = "import sys; sys.modules['rich'] = None; from abort_sync.cli import main; sys.exit(main())"
# A test run in the background of a shell inherits a Ctrl-C that is ignored.
WITH_CTRL_C = "import signal, runpy; signal.signal(2, signal.default_int_handler); runpy.run_module('abort_sync', None, '__main__')"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(*words: str) -> tuple[int, str]:
    """Run the command line with all three streams on a pseudo terminal; give its status and what it wrote."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "150", "LINES": "40"}
    start = [sys.executable, "-m", "abort_sync", *words]
    process = subprocess.Popen(start, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    written = b""
    ends_at = time.monotonic() + 60
    while time.monotonic() < ends_at and select.select([master], [], [], 60)[0]:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux: the other end is closed
            break
        written += piece
    os.close(master)
    return process.wait(60), written.decode()


def test_the_demo_tells_the_truth(child: Child) -> None:
    """`python -m abort_sync demo` ends well: three flushed, six idle, the hung one unknown, the dead one unreachable."""
    done = child("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if re.match(r"[A-Z]{4,} +\S", line)]
    statuses = [row.split()[0] for row in rows[1:]]
    assert statuses == ["ACCEPTED"] * 3 + ["IDLE"] * 6 + ["UNKNOWN", "UNREACHABLE"]
    assert len({len(re.sub(r"^(\S+ +).*", r"\1", row)) for row in rows}) == 1, "the second column begins in one place"
    assert "As it should be" in done.stdout


def test_the_demo_fails_when_the_report_is_not_what_it_should_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A demo whose hung worker answers after all is told from the truth: status 1, and what was expected."""
    monkeypatch.setattr(Behaviour, "hang", classmethod(lambda cls: None))
    assert main(["demo", "-q"]) == 1
    assert "NOT as it should be" in capsys.readouterr().err


def test_a_live_view_on_a_terminal() -> None:
    """With rich on a terminal the lines change in place, in colour, and the report follows."""
    with LocalFleet(workers=2) as fleet:
        fleet.workers[1].kill()
        status, written = on_terminal("abort", "r", "--router-url", fleet.router_url)
    assert status == 1
    assert "\x1b[2K" in written  # the live view wipes its lines
    assert "\x1b[32mACCEPTED" in written
    assert "\x1b[31mUNREACHABLE" in written
    plain = ESCAPE.sub("", written)
    assert "STATE" in plain
    assert f"ACCEPTED     {fleet.worker_urls[0]}" in plain


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def make_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put standard output and standard error on one terminal that knows colours (within the test: capture comes first)."""
    stream = Terminal()
    for variable, value in {"TERM": "xterm-256color", "COLUMNS": "150", "LINES": "40"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


COLOUR = re.compile(r"\x1b\[(\d+;)*3\d[;m]")


def test_no_colour_when_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--no-color` and `NO_COLOR` leave every colour out on a terminal that else gets them."""
    terminal = make_terminal(monkeypatch)
    with LocalFleet(workers=1) as fleet:
        words = ["abort", "r", "--router-url", fleet.router_url]
        assert main(words) == 0
        assert COLOUR.search(terminal.getvalue())
        terminal.truncate(0)
        assert main([*words, "--no-color"]) == 0
        monkeypatch.setenv("NO_COLOR", "1")
        assert main(words) == 0
    assert "ACCEPTED" in terminal.getvalue()
    assert not COLOUR.search(terminal.getvalue())


@pytest.mark.parametrize("why", ["dumb", "no rich", "json"])
def test_a_terminal_gets_plain_text_where_nothing_can_be_drawn(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dumb terminal, the core install and `--json` get no escape at all."""
    terminal = make_terminal(monkeypatch)
    if why == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    if why == "no rich":
        monkeypatch.setitem(sys.modules, "rich.console", None)
    with LocalFleet(workers=1) as fleet:
        words = ["--json"] if why == "json" else []
        assert main(["abort", "r", "--router-url", fleet.router_url, *words]) == 0
    assert "ACCEPTED" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_a_key_is_asked_for_before_anything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question for a key is not drawn over by the live view."""
    terminal = make_terminal(monkeypatch)
    drawn = []

    def getpass(prompt: str) -> str:
        drawn.append(terminal.getvalue())
        return "sesame"

    monkeypatch.setattr("getpass.getpass", getpass)
    monkeypatch.setattr(sys, "stdin", Terminal())
    with LocalFleet(workers=1, worker_key="sesame") as fleet:
        assert main(["abort", "r", "--router-url", fleet.router_url, "--worker-key-file", "-"]) == 0
    assert drawn == [""]


def test_watch_draws_in_place_and_keeps_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal each look replaces the one before, and the last one stays after Ctrl-C."""
    terminal = make_terminal(monkeypatch)
    with LocalFleet(workers=1) as fleet:

        def sleep(seconds: float) -> None:
            if fleet.workers[0].running:
                raise KeyboardInterrupt
            fleet.workers[0].start_generation()

        monkeypatch.setattr("abort_sync.cli._looks.sleep", sleep)
        assert main(["watch", "--router-url", fleet.router_url]) == 130
    last = ESCAPE.sub("", terminal.getvalue()).split("RUNNING")[-1]
    assert re.search(rf"{fleet.worker_urls[0]} +1 +0 ", last)


def test_the_core_install_is_enough(child: Child) -> None:
    """Where rich cannot be imported the commands run all the same, in aligned plain text."""
    with LocalFleet(workers=1) as fleet:
        done = child("workers", "--router-url", fleet.router_url, code=WITHOUT_RICH)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split() == ["WORKER", "VIA", "KIND", "HEALTHY", "BY"]
    assert done.stdout.splitlines()[1].split()[:2] == [fleet.worker_urls[0], "router"]
    assert "\x1b" not in done.stdout + done.stderr


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    """`abort-sync completion fish | head -1` ends quietly."""
    words = [sys.executable, "-m", "abort_sync", "completion", "fish"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def in_shell(script: str, fleet: LocalFleet) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `$RUN` is the command line and knows the fleet."""
    command = f"{shlex.quote(sys.executable)} -m abort_sync"
    urls = {"ABORT_SYNC_ROUTER_URL": fleet.router_url, "AGENT_SERVER_URL": fleet.agent_url or ""}
    return subprocess.run(
        ["sh", "-c", script.replace("$RUN", command)],
        env={**os.environ, **urls}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&- >&- 2>&-", "2>/dev/full", "-vv 2>/dev/full"])
def test_a_closed_or_full_stream_stops_no_work(closed: str) -> None:
    """Where the words cannot go, the work is done all the same, with its own exit status and no traceback."""
    with LocalFleet(workers=1) as fleet:
        fleet.workers[0].start_generation("r")
        done = in_shell(f"$RUN abort r {closed}", fleet)
        assert not fleet.workers[0].running
        assert (done.returncode, "Traceback" in done.stderr, "Error" in done.stderr) == (0, False, False)
        fleet.workers[0].kill()
        assert in_shell(f"$RUN abort r {closed}", fleet).returncode == 1
        assert in_shell(f"$RUN abort {closed}", fleet).returncode == 2
        fleet.router.kill()
        assert in_shell(f"$RUN workers {closed}", fleet).returncode == 3


def test_a_full_disk_is_one_sentence() -> None:
    """A report that cannot be written is status 1 and one line, after the work."""
    with LocalFleet(workers=1) as fleet:
        fleet.workers[0].start_generation("r")
        done = in_shell("$RUN -q abort r --json > /dev/full", fleet)
        assert not fleet.workers[0].running
    assert (done.returncode, done.stderr) == (1, "abort-sync: error: [Errno 28] No space left on device\n")


def test_ctrl_c_ends_a_hung_call() -> None:
    """Ctrl-C while a worker hangs ends the process with 130 long before the timeout, without a traceback."""
    with LocalFleet(workers=1) as fleet:
        fleet.workers[0].behave(Behaviour.hang())
        words = [sys.executable, "-c", WITH_CTRL_C, "abort", "r", "--router-url", fleet.router_url, "--timeout", "300"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            fleet.workers[0].wait_for(1)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.endswith("abort-sync: error: interrupted; what was sent until then stays sent\n")
    assert "Traceback" not in error


def test_a_key_from_standard_input(child: Child) -> None:
    """A key can be piped in."""
    with LocalFleet(workers=1, router_key="sesame") as fleet:
        done = child("workers", "--json", "--router-url", fleet.router_url, "--router-key-file", "-", stdin="sesame\n")
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["workers"]) == 1
