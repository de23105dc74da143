"""The command line as a process: the demo, a terminal, a pipe that closes, Ctrl-C, and life without rich."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from conftest import Child

from abort_sync.cli import main
from abort_sync.testing import Behaviour, LocalFleet

WITHOUT_RICH = "import sys; sys.modules['rich'] = None; from abort_sync.cli import main; sys.exit(main())"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(*words: str, code: str | None = None, **variables: str) -> tuple[int, str]:
    """Run the command line with all three streams on a pseudo terminal; give its status and what it wrote."""
    start = ["-m", "abort_sync"] if code is None else ["-c", code]
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "150", "LINES": "40", **variables}
    process = subprocess.Popen([sys.executable, *start, *words], stdin=slave, stdout=slave, stderr=slave, env=environment)
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
    starts = {re.match(r"\S+ +", row).end() for row in rows}  # type: ignore[union-attr]
    assert len(starts) == 1, "the second column begins in one place"
    assert "As it should be" in done.stdout


def test_the_demo_fails_when_the_report_is_not_what_it_should_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A demo whose hung worker answers is told from the truth: status 1, and what was expected."""
    monkeypatch.setattr(Behaviour, "hang", classmethod(lambda cls: cls.answer(200)))
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


@pytest.mark.parametrize("how", ["option", "variable"])
def test_no_colour_when_not_wanted(how: str) -> None:
    """`--no-color` and `NO_COLOR` leave every colour out on a terminal."""
    with LocalFleet(workers=1) as fleet:
        words = ["workers", "--router-url", fleet.router_url] + (["--no-color"] if how == "option" else [])
        status, written = on_terminal(*words, **({"NO_COLOR": "1"} if how == "variable" else {}))
        coloured = on_terminal("abort", "r", "--router-url", fleet.router_url)[1]
        words[0:1] = ["abort", "r"]
        plain = on_terminal(*words, **({"NO_COLOR": "1"} if how == "variable" else {}))[1]
    assert status == 0
    assert re.search(r"\x1b\[(\d+;)*3\d", coloured)
    assert not re.search(r"\x1b\[(\d+;)*3\d", written + plain)


def test_without_rich_a_terminal_gets_plain_lines() -> None:
    """The core install needs no rich: the same words, aligned, with no escape in them."""
    with LocalFleet(workers=1) as fleet:
        status, written = on_terminal("abort", "r", "--router-url", fleet.router_url, code=WITHOUT_RICH)
    assert status == 0
    assert "\x1b" not in written
    assert f"ACCEPTED  {fleet.worker_urls[0]}  r" in written


@pytest.mark.parametrize("code", [None, WITHOUT_RICH])
def test_a_pipe_gets_the_same_words_with_and_without_rich(code: str | None, child: Child) -> None:
    """Where no terminal is, rich changes nothing and no escape is written."""
    with LocalFleet(workers=1) as fleet:
        done = child("workers", "--router-url", fleet.router_url, code=code)
        assert done.returncode == 0
        assert done.stdout.splitlines()[0].split() == ["WORKER", "VIA", "HEALTHY", "BY"]
        assert done.stdout.splitlines()[1].split()[:2] == [fleet.worker_urls[0], "router"]
        assert "\x1b" not in done.stdout + done.stderr


def test_importing_the_command_line_does_not_import_rich(child: Child) -> None:
    """rich is imported when a terminal is drawn on, never before."""
    done = child(code="import sys, abort_sync.cli; sys.exit('rich' in sys.modules)")
    assert done.returncode == 0


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    """`abort-sync completion fish | head -1` ends quietly."""
    words = [sys.executable, "-m", "abort_sync", "completion", "fish"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_ctrl_c_ends_a_hung_call() -> None:
    """Ctrl-C while a worker hangs ends the process with 130 long before the timeout, without a traceback."""
    with LocalFleet(workers=1) as fleet:
        fleet.workers[0].behave(Behaviour.hang())
        words = [sys.executable, "-m", "abort_sync", "abort", "r", "--router-url", fleet.router_url, "--timeout", "300"]
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
