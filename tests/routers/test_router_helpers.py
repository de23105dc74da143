"""The helpers of these tests do what they are taken for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from miles_router import MilesRouter
from router_matrix import Matrix, parse_markdown
from router_process import REPOSITORY, OutsideRecorder, RouterProcess, interpreter, wait_until
from router_programs import ALL, MILES, MODES, PROGRAMS, Program

from abort_sync.testing import LocalFleet

CAPTURED = json.loads((Path(__file__).resolve().parents[1] / "data/routers/miles-31f1ca961.json").read_text("utf-8"))


def ask(method: str, url: str) -> tuple[int, str, Any]:
    with requests.Session() as session:
        session.trust_env = False
        answer = session.request(method, url, timeout=60)
        return answer.status_code, answer.headers["content-type"], _content(answer.headers["content-type"], answer.text)


def _content(kind: str, text: str) -> Any:
    return json.loads(text) if kind == "application/json" else text


def as_captured(mode: str, name: str, urls: list[str]) -> tuple[int, str, Any]:
    response: Any = CAPTURED[mode][name]["response"]
    body = response["body"]
    for number, url in enumerate(urls, 1):
        body = body.replace(f"http://127.0.0.1:3100{number}", url)
    kind = response["headers"]["content-type"]
    return response["status"], kind, _content(kind, body)


@pytest.fixture
def fleet() -> Iterator[LocalFleet]:
    with LocalFleet(2, agent_server=False) as made:
        yield made


def test_the_stand_in_answers_as_the_miles_router_did(fleet: LocalFleet) -> None:
    """The stand-in's answers are those captured from the real miles router, with workers and without."""
    urls = list(fleet.worker_urls)
    router, empty = MilesRouter(urls), MilesRouter([])
    try:
        assert ask("GET", f"{router.url}/list_workers") == as_captured("basic", "list_workers", urls)
        assert ask("GET", f"{router.url}/workers") == as_captured("basic", "workers", urls)
        assert ask("GET", f"{empty.url}/list_workers") == as_captured("zero", "list_workers", [])
        assert ask("GET", f"{empty.url}/workers") == as_captured("zero", "workers", [])
        for worker in fleet.workers:
            worker.kill()
        for _ in urls:  # it learns of each death
            ask("GET", f"{router.url}/workers")
        assert ask("GET", f"{router.url}/workers") == as_captured("dead", "workers_all_dead", urls)
        assert ask("GET", f"{router.url}/list_workers") == as_captured("dead", "list_workers_all_dead", urls)
    finally:
        router.stop()
        empty.stop()


def test_the_stand_in_passes_an_abort_on_to_one_worker_only(fleet: LocalFleet) -> None:
    """An abort sent to the miles router itself answers 200 and reaches one worker of all."""
    router = MilesRouter(fleet.worker_urls)
    try:
        assert requests.post(f"{router.url}/abort_request", json={"rid": "x"}, timeout=60).status_code == 200
    finally:
        router.stop()

    assert sorted(len(worker.requests) for worker in fleet.workers) == [0, 1]


def test_every_flag_that_the_matrix_uses_is_known_to_the_program(program: Program, tmp_path: Path) -> None:
    """A program's help names each flag of the modes that it offers, and not the flag of a mode that it does not."""
    python = interpreter(program.requirement, program.in_extra)
    command = [python, *program.launcher, "--help"]
    environment = {**os.environ, "COLUMNS": "200"}
    text = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment).stdout
    known = set(text.split())

    for mode in MODES:
        used = {word for word in program.arguments(mode, 1, 2, ["u1", "u2", "u3"]) if word.startswith("--")}
        flag = program.not_offered.get(mode)
        if flag is None:
            assert used <= known
        else:
            assert used - known == {flag}


def test_a_router_that_calls_the_outside_is_caught(tmp_path: Path) -> None:
    """A request of the router's process to another host ends at the recorder, and is known by its first line."""
    outside = OutsideRecorder()
    code = "import urllib.request as u; u.urlopen('http://192.0.2.1/model')"
    process = RouterProcess(sys.executable, ["-c", code], tmp_path / "log", outside)
    try:
        wait_until(lambda: process.exit_code is not None, "the process ended")
    finally:
        process.stop()
        outside.close()

    assert outside.seen == ["GET http://192.0.2.1/model HTTP/1.1"]
    assert "502" in process.tail(), "it got an answer, and no other"


def test_a_router_is_killed_with_its_children(tmp_path: Path) -> None:
    """Stopping a router ends its whole process group."""
    outside = OutsideRecorder()
    pid_file = tmp_path / "pid"
    child = "import os,sys,time; open(sys.argv[1] + '.new', 'w').write(str(os.getpid())); "
    child += "os.rename(sys.argv[1] + '.new', sys.argv[1]); time.sleep(600)"
    code = "import subprocess,sys; subprocess.run([sys.executable, '-c', sys.argv[1], sys.argv[2]])"
    process = RouterProcess(sys.executable, ["-c", code, child, str(pid_file)], tmp_path / "log", outside)
    try:
        wait_until(pid_file.exists, "the child runs")
    finally:
        process.stop()
        outside.close()

    stat = Path(f"/proc/{pid_file.read_text()}/stat")
    wait_until(lambda: not stat.exists() or stat.read_text().split()[2] == "Z", "the child is gone")


def test_the_worst_result_of_a_pair_stands_in_the_table() -> None:
    """One failure makes a cell failed, whatever passed; what a program has not is not offered."""
    matrix = Matrix([PROGRAMS[0], MILES])
    for router, mode, passed in (
        (PROGRAMS[0].name, "plain", True),
        (PROGRAMS[0].name, "plain", False),
        (PROGRAMS[0].name, "plain", True),
        (MILES.name, "plain", True),
    ):
        matrix.record(router, mode, passed)

    head, *rows = parse_markdown(f"# Page\n\ntext | text\n\n{matrix.markdown()}\nmore")

    assert head == ["mode", PROGRAMS[0].name, MILES.name]
    assert [mode for mode, *_ in rows] == list(MODES)
    cells = {mode: tuple(rest) for mode, *rest in rows}
    assert cells["plain"] == ("failed", "passed")
    assert cells["changing"] == ("not run", "not run")
    assert cells["data-parallel"] == ("not run", "not offered")
    assert cells["control keys"] == ("not offered", "not offered")


def test_the_readme_shows_every_router_and_mode() -> None:
    """The README's table has the routers and modes of these tests, and claims no mode that a router does not offer."""
    head, *rows = parse_markdown((REPOSITORY / "README.md").read_text("utf-8"))

    assert head == ["mode", *(one.name for one in ALL)]
    assert rows == [[mode, *("not offered" if mode in one.not_offered else "passed" for one in ALL)] for mode in MODES]
