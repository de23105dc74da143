"""The doctor: each kind of trouble is found, with what to do, and nothing is aborted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abort_sync.cli import main
from abort_sync.testing import Behaviour, LocalFleet

Captured = pytest.CaptureFixture[str]
Found = dict[str, list[dict[str, str]]]
Examine = Callable[..., "tuple[int, Found]"]


@pytest.fixture
def fleet() -> Iterator[LocalFleet]:
    """Two workers that generate, and an agent server with a run."""
    with LocalFleet(workers=2) as made:
        for worker in made.workers:
            worker.start_generation()
        made.agent.start_runs("instance-1")
        yield made


@pytest.fixture
def examine(capsys: Captured) -> Examine:
    """Runs the doctor on a fleet and gives the status and the findings by what they are about."""

    def run(fleet: LocalFleet, *words: str) -> tuple[int, Found]:
        where = ["--router-url", fleet.router_url] + (["--agent-server-url", fleet.agent_url] if fleet.agent_url else [])
        status = main(["doctor", "--json", *where, *words])
        found: Found = {}
        for finding in json.loads(capsys.readouterr().out)["findings"]:
            found.setdefault(finding["about"], []).append(finding)
        return status, found

    return run


def test_a_sound_set_up_is_well_and_nothing_is_aborted(fleet: LocalFleet, examine: Examine) -> None:
    """All is ok, status 0, and neither an abort nor a flush was sent."""
    status, found = examine(fleet)
    assert status == 0
    assert {one["level"] for about in found.values() for one in about} == {"ok"}
    assert "speaks GET /workers and lists 2 workers" in found[f"router {fleet.router_url}"][0]["found"]
    assert set(found) >= {f"worker {url}" for url in fleet.worker_urls} | {"proxy", ".netrc", "keys"}
    sent = {(one.method, one.path) for server in (*fleet.workers, fleet.agent) for one in server.requests}
    assert sent == {("GET", "/v1/loads")}


def test_probe_proves_routes_and_keys_and_ends_nothing(fleet: LocalFleet, examine: Examine) -> None:
    """`--probe` sends each worker an abort and the agent server a flush that match nothing."""
    status, found = examine(fleet, "--probe")
    assert status == 0
    assert found["agent server"][0]["level"] == "ok"
    assert [len(worker.running) for worker in fleet.workers] == [1, 1]
    assert fleet.agent.running == {"instance-1": 1}
    assert all(any(one.path == "/abort_request" for one in worker.requests) for worker in fleet.workers)


def test_each_missing_key_is_named(examine: Examine, tmp_path: Path) -> None:
    """Without its key the router is refused, then the workers, then the abort; the advice names option and variable."""
    keys = {"router": "one", "worker": "two", "worker-admin": "three"}
    for name, key in keys.items():
        (tmp_path / name).write_text(key)
    words = {name: [f"--{name}-key-file", str(tmp_path / name)] for name in keys}
    with LocalFleet(workers=1, agent_server=False, router_key="one", worker_key="two", worker_admin_key="three") as fleet:
        router, worker = f"router {fleet.router_url}", f"worker {fleet.worker_urls[0]}"
        status, found = examine(fleet)
        assert (status, found[router][0]["level"]) == (1, "problem")
        assert "--router-key-file" in found[router][0]["advice"]
        assert "ABORT_SYNC_ROUTER_KEY" in found[router][0]["advice"]
        status, found = examine(fleet, *words["router"])
        assert (status, found[router][0]["level"], found[worker][0]["level"]) == (1, "ok", "problem")
        assert "--worker-key-file" in found[worker][0]["advice"]
        status, found = examine(fleet, *words["router"], *words["worker"], "--probe")
        assert (status, [one["level"] for one in found[worker]]) == (1, ["ok", "problem"])
        assert "ABORT_SYNC_WORKER_ADMIN_KEY" in found[worker][1]["found"]
        status, _ = examine(fleet, *words["router"], *words["worker"], *words["worker-admin"], "--probe")
        assert status == 0


def test_what_cannot_be_reached_is_named(fleet: LocalFleet, examine: Examine) -> None:
    """A dead worker and a dead agent server are problems; the rest is still looked at."""
    fleet.workers[1].kill()
    fleet.agent.kill()
    status, found = examine(fleet)
    assert status == 1
    assert found[f"worker {fleet.worker_urls[0]}"][0]["level"] == "ok"
    dead = found[f"worker {fleet.worker_urls[1]}"][0]
    assert (dead["level"], "refused" in dead["found"], bool(dead["advice"])) == ("problem", True, True)
    agent = next(about for about in found if about.startswith("agent server"))
    assert found[agent][0]["level"] == "problem"


def test_a_worker_whose_load_cannot_be_read_is_a_note(fleet: LocalFleet, examine: Examine) -> None:
    """A worker that answers but tells no load can be aborted: good to know, no problem."""
    fleet.workers[0].behave(Behaviour.answer(500))
    fleet.workers[1].behave(Behaviour.wrong_json())
    status, found = examine(fleet)
    assert status == 0
    assert [found[f"worker {url}"][0]["level"] for url in fleet.worker_urls] == ["note", "note"]


def test_a_worker_without_any_route_for_its_load_is_a_problem(fleet: LocalFleet, examine: Examine) -> None:
    """A server that knows no such route is no SGLang server, or a very old one."""
    fleet.workers[0].behave(Behaviour.answer(404))
    status, found = examine(fleet)
    problem = found[f"worker {fleet.worker_urls[0]}"][0]
    assert (status, problem["level"]) == (1, "problem")
    assert "no SGLang server, or a very old one" in problem["found"]
    assert "--probe" in problem["advice"]


def test_too_little_time_is_answered_with_more(fleet: LocalFleet, examine: Examine) -> None:
    """Where the deadline came first, or a server is slow, the advice is a longer `--timeout`."""
    _, found = examine(fleet, "--timeout", "1e-6")
    assert found[f"router {fleet.router_url}"][0]["advice"].startswith("give it longer with --timeout")
    fleet.workers[0].behave(Behaviour.hang())
    _, found = examine(fleet, "--timeout", "1")
    assert found[f"worker {fleet.worker_urls[0]}"][0]["advice"].startswith("give it longer with --timeout")


def test_the_probe_of_an_agent_server_speaks_of_the_agent_server(capsys: Captured, tmp_path: Path) -> None:
    """A refused flush wants the agent's secret, a missing route the base URL; what was tried is not called untried."""
    with LocalFleet(workers=0, agent_secret="sesame") as fleet:
        words = ["doctor", "--probe", "--agent-server-url"]
        assert main([*words, fleet.agent_url or ""]) == 1
        printed = capsys.readouterr().out
        assert "agent server: it wants another secret: give --agent-secret-file FILE" in printed
        assert "--worker" not in printed
        assert "not tried" not in printed
        assert main([*words, f"{fleet.agent_url}/flush"]) == 1
        assert "give the agent server's base URL, without /flush" in capsys.readouterr().out


def test_a_router_that_is_none(examine: Examine) -> None:
    """A dead router, a web page, an empty listing, and a server itself are told apart."""
    with LocalFleet(workers=0, agent_server=False) as fleet:
        about = f"router {fleet.router_url}"
        status, found = examine(fleet)
        assert (status, "lists 0 workers" in found[about][0]["found"]) == (1, True)
        fleet.router.behave(Behaviour.html())
        status, found = examine(fleet)
        assert (status, found[about][0]["level"]) == (1, "problem")
        fleet.router.kill()
        status, found = examine(fleet)
        assert (status, "refused" in found[about][0]["found"]) == (1, True)
        worker = fleet.add_worker()
        fleet.router.revive()
        assert main(["doctor", "-q", "--router-url", worker.url]) == 0


def test_what_a_listing_says_is_told(fleet: LocalFleet, examine: Examine) -> None:
    """A worker that HTTP cannot reach is a problem; one listed as unhealthy and an entry without URL are notes."""
    listed = [
        {"url": fleet.worker_urls[0], "is_healthy": False},
        {"url": "grpc://127.0.0.1:9", "is_healthy": True},
        {"id": "no url"},
    ]
    fleet.router.behave(Behaviour.answer(body=json.dumps({"workers": listed})), path="/workers")
    status, found = examine(fleet)
    assert status == 1
    assert [one["level"] for one in found[f"worker {fleet.worker_urls[0]}"]] == ["note", "ok"]
    assert [one["level"] for one in found["worker grpc://127.0.0.1:9"]] == ["problem"]
    assert "--worker-url" in found["worker grpc://127.0.0.1:9"][0]["advice"]
    assert [one["level"] for one in found["listing"]] == ["note"]


def test_a_worker_that_does_not_answer_is_a_problem(fleet: LocalFleet, examine: Examine) -> None:
    """A worker that takes the call and cuts it is named."""
    fleet.workers[1].behave(Behaviour.reset())
    status, found = examine(fleet)
    assert status == 1
    assert [one["level"] for one in found[f"worker {fleet.worker_urls[1]}"]] == ["problem"]


def test_an_agent_server_alone_can_be_examined(fleet: LocalFleet, capsys: Captured) -> None:
    """Without a router only the agent server is looked at, and a note says so: its variable may be misspelt."""
    assert main(["doctor", "--agent-server-url", fleet.agent_url or ""]) == 0
    printed = capsys.readouterr().out
    assert "agent server 127.0.0.1:" in printed
    assert "router: an abort needs one: --router-url URL, or ABORT_SYNC_ROUTER_URL" in printed


def test_a_proxy_variable_is_a_note_unless_no_proxy_covers(fleet: LocalFleet, examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment is told with the cure, and the doctor's own calls do not use it."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    status, found = examine(fleet)
    assert (status, found["proxy"][0]["level"]) == (0, "note")
    assert found["proxy"][0]["advice"].endswith("NO_PROXY=127.0.0.1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert examine(fleet)[1]["proxy"][0]["level"] == "ok"


@pytest.mark.parametrize(
    ("content", "says"),
    [("machine 127.0.0.1 login me password sesame\n", "login for 127.0.0.1"), ("machine\n", "cannot be read")],
)
def test_a_netrc_that_matters_is_a_note(
    content: str, says: str, fleet: LocalFleet, examine: Examine,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    """A login in `.netrc` for one of the hosts is told, without the password; so is a file that cannot be read."""
    file = tmp_path / "netrc"
    file.write_text(content)
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    status, found = examine(fleet)
    assert (status, found[".netrc"][0]["level"]) == (0, "note")
    assert says in found[".netrc"][0]["found"]
    assert "sesame" not in str(found)


def test_what_to_do_follows_the_table(fleet: LocalFleet, capsys: Captured) -> None:
    """For a person: one line a finding, then one line of advice for each that has one."""
    fleet.workers[0].kill()
    assert main(["doctor", "--router-url", fleet.router_url]) == 1
    table, _, advice = capsys.readouterr().out.partition("\n\n")
    assert table.splitlines()[0].split() == ["LEVEL", "ABOUT", "FOUND"]
    assert f"worker {fleet.worker_urls[0]}: is it running" in advice
