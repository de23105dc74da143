"""Real routers' listings, replayed: each answer is served byte for byte as the program sent it.

The answers are in `tests/data/routers/<router>-<version>.json`, by mode and name, with `request` and `response`. They came
from the programs on loopback with stub workers on ports 31001 to 31012. The programs themselves are in `tests/routers`.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from abort_sync import AbortClient, Keys, RouterError, Status

DATA = Path(__file__).resolve().parents[1] / "data" / "routers"

# router, mode, the answers served, the workers that must be found: port, `[port]` on [::1], `L port` on localhost.
LISTINGS = """
    sglang-router-0.1.9  basic            workers,list_workers                            31001 31002 31003
    sglang-router-0.1.9  dp               workers,list_workers                            31001 31002
    sglang-router-0.1.9  pd               workers,list_workers                            31001 31002 31003
    sglang-router-0.1.9  dups             workers,list_workers                            31001 31002 L31001
    sglang-router-0.1.9  zero             workers,list_workers
    sglang-router-0.1.9  auth             workers_noauth,list_workers_noauth              31001 31002
    sglang-router-0.1.9  dead             workers_after_kill,list_workers_after_kill      31001 31002
    sglang-router-0.2.1  basic            workers                                         31001 31002 31003
    sglang-router-0.2.1  dp               workers
    sglang-router-0.2.1  pd               workers                                         31001 31002 31003
    sglang-router-0.2.1  zero             workers
    sglang-router-0.2.1  ipv6             workers                                         [31001]
    sglang-router-0.2.1  auth             workers_ok                                      31001 31002
    sglang-router-0.2.1  dead             workers_after_kill                              31001 31002
    sglang-router-0.2.1  dead             workers_all_dead                                31001 31002
    sglang-router-0.2.1  delete_inflight  workers_right_after_delete                      31002
    sglang-router-0.2.1  igw              workers_right_after_post
    sglang-router-0.2.1  igw              workers                                         31001 31002 31003 31004 L31001
    sglang-router-0.2.1  startup_missing  workers_final                                   31001 31003
    sglang-router-0.2.4  basic            workers                                         31001 31002 31003
    sglang-router-0.2.4  dp               workers                                         31001 31002
    sglang-router-0.2.4  pd               workers                                         31001 31002 31003
    sglang-router-0.2.4  dups             workers                                         31001 31002 L31001
    sglang-router-0.2.4  zero             workers
    sglang-router-0.2.4  ipv6             workers                                         [31001]
    sglang-router-0.2.4  auth             workers_ok                                      31001 31002
    sglang-router-0.2.4  dead             workers_after_kill                              31001 31002
    sglang-router-0.2.4  dead             workers_all_dead                                31001 31002
    sglang-router-0.2.4  delete_inflight  workers_right_after_delete                      31002
    sglang-router-0.2.4  igw              workers_right_after_post
    sglang-router-0.2.4  igw              workers                                         31001 31002 31003 31004 L31001
    sglang-router-0.2.4  startup_missing  workers_final                                   31001
    sglang-router-0.3.2  basic            workers                                         31001 31002 31003
    sglang-router-0.3.2  dp               workers                                         31001 31002
    sglang-router-0.3.2  pd               workers                                         31001 31002 31003
    sglang-router-0.3.2  dups             workers                                         31001 31002 L31001
    sglang-router-0.3.2  zero             workers
    sglang-router-0.3.2  ipv6             workers                                         [31001]
    sglang-router-0.3.2  auth             workers_ok                                      31001 31002
    sglang-router-0.3.2  cpauth           workers_admin                                   31001 31002
    sglang-router-0.3.2  dead             workers_after_kill                              31001 31002
    sglang-router-0.3.2  dead             workers_all_dead                                31001 31002
    sglang-router-0.3.2  delete_inflight  workers_right_after_delete                      31002
    sglang-router-0.3.2  igw              workers_right_after_post
    sglang-router-0.3.2  igw              workers                                         31001 31002 31003 31004 L31001
    sglang-router-0.3.2  startup_missing  workers_final                                   31001 31003
    smg-1.13.0           basic            workers                                         31001 31002 31003
    smg-1.13.0           dp               workers                                         31001 31002
    smg-1.13.0           pd               workers                                         31001 31002 31003
    smg-1.13.0           dups             workers                                         31001 31002 L31001
    smg-1.13.0           zero             workers
    smg-1.13.0           ipv6             workers                                         [31001]
    smg-1.13.0           auth             workers_ok                                      31001 31002
    smg-1.13.0           cpauth           workers_admin                                   31001 31002
    smg-1.13.0           cpauth           workers_user                                    31001 31002
    smg-1.13.0           dead             workers_after_kill                              31001 31002
    smg-1.13.0           dead             workers_all_dead                                31001 31002
    smg-1.13.0           delete_inflight  workers_right_after_delete                      31001 31002
    smg-1.13.0           igw              workers_right_after_post
    smg-1.13.0           igw              workers                                         31001 31002 31003 31004 L31001
    smg-1.13.0           rl_label         workers                                         31001 31002
    smg-1.13.0           startup_missing  workers_final                                   31001 31003
    vllm-router-0.1.17   basic            workers                                         31001 31002 31003
    vllm-router-0.1.17   dp               workers                                         31001 31002
    vllm-router-0.1.17   pd               workers                                         31001 31002 31003
    vllm-router-0.1.17   dups             workers                                         31001 31002 L31001
    vllm-router-0.1.17   zero             workers
    vllm-router-0.1.17   ipv6             workers                                         [31001]
    vllm-router-0.1.17   auth             workers_noauth                                  31001 31002
    vllm-router-0.1.17   dead             workers_after_kill                              31001 31002
    vllm-router-0.1.17   dead             workers_all_dead                                31001 31002
    vllm-router-0.1.17   delete_inflight  workers_right_after_delete                      31002
    vllm-router-0.1.17   startup_missing  workers_final                                   31001 31002 31003
    miles-31f1ca961      basic            workers,list_workers                            31001 31002
    miles-31f1ca961      zero             workers,list_workers
    miles-31f1ca961      dead             workers_all_dead,list_workers_all_dead          31001 31002
"""

# The same of what refuses, and the status that must be told.
REFUSALS = """
    sglang-router-0.2.1  auth    workers_noauth,list_workers_noauth   401
    sglang-router-0.2.4  auth    workers_noauth,list_workers_noauth   401
    sglang-router-0.3.2  auth    workers_noauth,list_workers_noauth   401
    sglang-router-0.3.2  cpauth  workers_noauth                       401
    sglang-router-0.3.2  cpauth  workers_user                         403
    smg-1.13.0           auth    workers_noauth,list_workers_noauth   401
    smg-1.13.0           cpauth  workers_noauth                       401
"""


def table(text: str) -> list[tuple[str, str, str, list[str]]]:
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return [(router, mode, names, rest) for router, mode, names, *rest in rows]


def names_of(row: tuple[str, str, str, list[str]]) -> str:
    return "-".join(row[:3])


def url_of(token: str) -> str:
    if token.startswith("["):
        return f"http://[::1]:{token[1:-1]}"
    return f"http://localhost:{token[1:]}" if token.startswith("L") else f"http://127.0.0.1:{token}"


def captured(router: str, mode: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DATA / f"{router}.json").read_text("utf-8"))[mode]
    return content


def as_sent(response: dict[str, Any]) -> bytes:
    lines = [f"HTTP/1.1 {response['status']} {HTTPStatus(response['status']).phrase}"]
    lines += [f"{name}: {value}" for name, value in response["headers"].items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + response["body"].encode()


class Replay:
    """A server that has an answer for some paths, and records what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.heads: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def play(self, router: str, mode: str, names: str) -> None:
        """Serve these answers, each for the path for which it was given."""
        answers = captured(router, mode)
        chosen = [answers[name] for name in names.split(",")]
        self.answers = {one["request"]["path"]: as_sent(one["response"]) for one in chosen}

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10.0)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as file:
                head = b"".join(iter(file.readline, b"\r\n"))
                method, path, _ = head.split(b"\r\n", 1)[0].decode().split()
                self.heads.append(head)
                self.asked.append(f"{method} {path}")
                connection.sendall(self.answers.get(path, b"HTTP/1.1 418 I'm a Teapot\r\ncontent-length: 0\r\n\r\n"))


@pytest.fixture
def replay() -> Iterator[Replay]:
    server = Replay()
    yield server
    server.close()


@pytest.mark.parametrize("row", table(LISTINGS), ids=names_of)
def test_a_real_listing_gives_each_server_once(replay: Replay, row: tuple[str, str, str, list[str]]) -> None:
    """Each server that a real router listed is one worker, learned from the router, and nothing else is."""
    router, mode, names, expected = row
    replay.play(router, mode, names)

    workers = AbortClient(replay.url, timeout_s=30.0).workers()

    assert sorted(worker.url for worker in workers) == sorted(url_of(token) for token in expected)
    assert {worker.via for worker in workers} <= {"router"}
    assert {worker.connection for worker in workers} <= {"http"}
    assert replay.asked[0] == "GET /workers"
    assert replay.asked[1:] == ["GET /list_workers"] * ("list_workers" in names)


@pytest.mark.parametrize("row", table(REFUSALS), ids=names_of)
def test_a_real_refusal_is_told_and_not_got_round(replay: Replay, row: tuple[str, str, str, list[str]]) -> None:
    """401 and 403 end the listing, whatever their body: one request, no fall-through, no abort."""
    router, mode, names, (status,) = row
    replay.play(router, mode, names)
    client = AbortClient(replay.url, keys=Keys(router="wrong"), timeout_s=30.0)

    with pytest.raises(RouterError, match=status):
        client.workers()
    report = client.abort_request("rid-1")

    assert (report.ok, report.outcomes) == (False, ())
    assert status in str(report.error)
    assert replay.asked == ["GET /workers", "GET /workers"]


@pytest.mark.parametrize("router", ["sglang-router-0.2.4", "sglang-router-0.3.2", "smg-1.13.0"])
def test_a_grpc_worker_is_unsupported(replay: Replay, router: str) -> None:
    """A worker that is reached over gRPC is listed and reported as not abortable over HTTP; nothing is sent to it."""
    replay.play(router, "grpc_live", "workers")
    client = AbortClient(replay.url, timeout_s=30.0)

    (worker,) = client.workers()
    report = client.abort_request("rid-1")

    assert (worker.url, worker.connection) == ("grpc://127.0.0.1:31011", "grpc")
    assert not report.ok
    assert [(one.target, one.status, one.attempts) for one in report.outcomes] == [(worker.url, Status.UNSUPPORTED, ())]
    assert "gRPC" in str(report.outcomes[0].error) or "grpc" in str(report.outcomes[0].error)


def test_a_grpc_worker_is_called_by_its_http_control_url(replay: Replay) -> None:
    """Where the gateway's label names an HTTP address of a gRPC worker, that address is the worker."""
    response = dict(captured("smg-1.13.0", "grpc_live")["workers"]["response"])
    labelled = response["body"].replace('"labels":{', '"labels":{"rl.control_url":"http://127.0.0.1:31012",')
    response.update(body=labelled, headers={"content-type": "application/json", "content-length": str(len(labelled))})
    replay.answers = {"/workers": as_sent(response)}

    (worker,) = AbortClient(replay.url, timeout_s=30.0).workers()

    assert (worker.url, worker.connection) == ("http://127.0.0.1:31012", "http")


@pytest.mark.parametrize("router", [path.stem for path in sorted(DATA.glob("*.json")) if "minilb" in path.read_text("utf-8")])
def test_a_load_balancer_without_listing_or_abort_is_unsupported(replay: Replay, router: str) -> None:
    """`--mini-lb` lists nothing and aborts nothing: it is taken for a server, and the 404 of the abort is reported."""
    replay.play(router, "minilb", "workers,list_workers")
    replay.answers["/abort_request"] = as_sent({"status": 404, "headers": {"content-length": "0"}, "body": ""})

    report = AbortClient(replay.url, timeout_s=30.0).abort_request("rid-1")

    assert not report.ok
    assert [(one.target, one.via, one.status, one.http_status) for one in report.outcomes] == [
        (replay.url, "direct", Status.UNSUPPORTED, 404)
    ]
    assert replay.asked == ["GET /workers", "GET /list_workers", "POST /abort_request"]


def test_kind_and_health_are_told_as_listed(replay: Replay) -> None:
    """A worker's kind and health are the router's words; none where its dialect has none."""
    replay.play("smg-1.13.0", "pd", "workers")
    kinds = {worker.url[-1]: (worker.kind, worker.is_healthy) for worker in AbortClient(replay.url).workers()}
    replay.play("smg-1.13.0", "delete_inflight", "workers_right_after_delete")
    health = {worker.url[-1]: worker.is_healthy for worker in AbortClient(replay.url).workers()}
    replay.play("sglang-router-0.1.9", "pd", "workers,list_workers")
    unknown = {(worker.kind, worker.is_healthy) for worker in AbortClient(replay.url).workers()}

    assert kinds == {"1": ("prefill", True), "2": ("prefill", True), "3": ("decode", True)}
    assert health == {"1": False, "2": True}, "a draining worker stays"
    assert unknown == {(None, None)}


def test_every_answer_is_served_by_some_test() -> None:
    """No capture lies about unused."""
    used = {(router, mode, name) for router, mode, names, _ in table(LISTINGS + REFUSALS) for name in names.split(",")}
    present = {
        (path.stem, mode, name)
        for path in DATA.glob("*.json")
        for mode, answers in json.loads(path.read_text("utf-8")).items()
        for name in answers
    }

    extra = {one for one in present - used if one[1] not in ("grpc_live", "minilb")}

    assert extra == set()
    assert used <= present
