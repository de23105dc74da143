"""The fleet as a whole: what is listed, what is dead, and how it ends."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from plain_http import address, call, raw, read_all

from abort_sync import AbortClient, Status
from abort_sync.testing import Behaviour, LocalFleet, LoopbackWorker

CERTIFICATE = Path(__file__).parent / "data" / "loopback.pem"


def listed(fleet: LocalFleet) -> list[str]:
    return [entry["url"] for entry in call(f"{fleet.router_url}/workers").json["workers"]]


def left_threads() -> list[threading.Thread]:
    """The threads of any fleet that do not end by themselves."""
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("local-fleet")]
    for thread in threads:
        thread.join(30.0)
    return [thread for thread in threads if thread.is_alive()]


def test_all_servers_are_on_loopback_and_answer() -> None:
    """A fleet is a router that lists the workers in order, the workers, and an agent server, each on a port of its own."""
    with LocalFleet(workers=4) as fleet:
        assert fleet.agent_url is not None
        urls = [fleet.router_url, fleet.agent_url, *fleet.worker_urls]
        assert listed(fleet) == list(fleet.worker_urls)
        assert [call(f"{url}/health").status for url in urls] == [200] * 6
    assert len(set(urls)) == 6
    assert {address(url)[0] for url in urls} == {"127.0.0.1"}


def test_a_fleet_without_agent_server_or_workers() -> None:
    """What is not wanted is not there, and asking for the agent server says how to get one."""
    with LocalFleet(workers=0, agent_server=False) as fleet:
        assert listed(fleet) == []
        assert fleet.agent_url is None
        with pytest.raises(LookupError, match="agent_server=True"):
            _ = fleet.agent


def test_a_killed_worker_is_listed_and_refuses_until_revived() -> None:
    """A killed worker is a closed port that is still listed; revived it has the same URL and nothing running."""
    with LocalFleet(workers=2) as fleet:
        worker = fleet.workers[1]
        worker.start_generation("lost")
        worker.kill()
        assert listed(fleet) == list(fleet.worker_urls)
        assert not worker.is_alive
        assert worker.running == frozenset()
        with pytest.raises(ConnectionRefusedError):
            call(f"{worker.url}/health")
        worker.revive()
        assert call(f"{fleet.worker_urls[1]}/health").status == 200
        assert worker.is_alive


def test_a_dead_worker_keeps_its_port() -> None:
    """While a worker is dead nobody else can open its port, so that it stays refused."""
    with LocalFleet(workers=1) as fleet, socket.socket() as other:
        fleet.workers[0].kill()
        with pytest.raises(OSError) as caught:
            other.bind(address(fleet.worker_urls[0]))
    assert caught.value.errno == errno.EADDRINUSE


def test_a_killed_server_cuts_its_connections() -> None:
    """A server that dies takes its open connections with it."""
    with LocalFleet(workers=1) as fleet:
        worker = fleet.workers[0]
        worker.behave(Behaviour.hang())
        with raw(worker.url, b"GET /health HTTP/1.1\r\n\r\n") as waiting, raw(worker.url, b"GET /hea") as half:
            worker.wait_until(lambda server: server.accepted == 2 and len(server.requests) == 1)
            worker.kill()
            assert read_all(waiting) == read_all(half) == b""


def test_workers_come_and_leave_the_listing() -> None:
    """An added worker is listed; a removed one is not, but lives and generates on."""
    with LocalFleet(workers=2) as fleet:
        added = fleet.add_worker()
        fleet.workers[0].start_generation("on")
        fleet.remove_worker(0)
        assert listed(fleet) == [fleet.worker_urls[1], added.url]
        assert fleet.workers[2] is added
        assert fleet.workers[0].running == {"on"}


def test_256_connections_at_once_are_all_answered() -> None:
    """A worker takes 256 connections that are open at the same time and answers each."""
    with LocalFleet(workers=1) as fleet:
        worker = fleet.workers[0]
        connections = [socket.create_connection(address(worker.url), timeout=30.0) for _ in range(256)]
        worker.wait_until(lambda server: server.accepted == 256)
        for connection in connections:
            connection.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        answers = [read_all(connection) for connection in connections]
        for connection in connections:
            connection.close()
    assert {answer.partition(b"\r\n")[0] for answer in answers} == {b"HTTP/1.1 200 OK"}


def test_leaving_the_block_ends_hanging_connections_threads_and_sockets() -> None:
    """A fleet ends at once whatever its connections are doing, and leaves no thread and no descriptor."""
    before = len(os.listdir("/proc/self/fd"))
    with ThreadPoolExecutor(8) as pool:
        with LocalFleet(workers=3) as fleet:
            dripping, endless, hanging = fleet.workers
            dripping.behave(Behaviour.drip_body(interval_s=1000.0))
            endless.behave(Behaviour.endless_body())
            hanging.behave(Behaviour.hang())
            fleet.agent.teardown_s = 1000.0
            fleet.agent.start_runs("slow")
            calls = [pool.submit(call, f"{worker.url}/health") for worker in (dripping, hanging)]
            calls.append(pool.submit(call, f"{fleet.agent_url}/flush", {"session_server_instance_id": "slow"}))
            unread = raw(endless.url, b"GET /health HTTP/1.1\r\n\r\n")
            for server in (*fleet.workers, fleet.agent):
                server.wait_for(1)
            started = time.monotonic()
        elapsed_s = time.monotonic() - started
        assert all(isinstance(one.exception(timeout=30), Exception) for one in calls)
    unread.close()
    assert elapsed_s < 5.0  # a second, and slack for a busy machine
    assert left_threads() == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_closing_twice_is_harmless() -> None:
    """A fleet may be closed in its block and again by leaving it."""
    with LocalFleet(workers=1) as fleet:
        fleet.close()
    assert not fleet.workers[0].is_alive


def test_a_fleet_that_cannot_start_leaves_nothing() -> None:
    """A wrong option raises, and the servers started before it are ended."""
    with pytest.raises(ValueError, match="dialect: one of workers, list_workers, both is wanted, not 'odd'"):
        LocalFleet(dialect="odd")
    with pytest.raises(TypeError):
        LocalFleet(workers=None)
    assert left_threads() == []


FORKED = """
import os, signal, socket
from urllib.parse import urlsplit
from abort_sync.testing import LocalFleet

with LocalFleet(workers=1) as fleet:
    where = urlsplit(fleet.worker_urls[0])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        fleet.close()
        os.write(writing, b"x")
        signal.pause()
    try:
        os.read(reading, 1)
        socket.create_connection((where.hostname, where.port), timeout=30).close()
        fleet.workers[0].kill()
        try:
            socket.create_connection((where.hostname, where.port), timeout=30).close()
        except ConnectionRefusedError:
            print("served, then refused")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""


def test_a_forked_child_neither_ends_the_fleet_nor_keeps_it_alive() -> None:
    """Closing in a forked child leaves the parent's fleet alone; killing in the parent closes the port in both."""
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("served, then refused", "")


def test_a_fleet_over_tls() -> None:
    """With a server-side context every server speaks HTTPS, and a client that does not is left without an answer."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(CERTIFICATE)
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    with LocalFleet(workers=1, tls=server_side) as fleet:
        for url in (fleet.router_url, fleet.agent_url, *fleet.worker_urls):
            assert call(f"{url}/health", tls=trusting).status == 200
        worker = fleet.workers[0]
        stream = {"text": "x", "stream": True, "sampling_params": {"max_new_tokens": 10}}
        assert b'"length"' in call(f"{worker.url}/generate", stream, tls=trusting).body
        worker.behave(Behaviour.hang())
        with raw(worker.url, b"GET /health HTTP/1.1\r\n\r\n") as plain:
            assert not read_all(plain).startswith(b"HTTP")
        with trusting.wrap_socket(socket.create_connection(address(worker.url)), server_hostname="127.0.0.1") as hung:
            hung.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            worker.wait_for(2, path="/health")
            worker.kill()
            assert hung.recv(1) == b""


def test_the_client_of_a_fleet_knows_its_keys() -> None:
    """A client made by the fleet reaches router, workers and agent server with the keys of each."""
    keys = {"router_key": "r", "worker_key": "w", "worker_admin_key": "a", "agent_secret": "s"}
    with LocalFleet(workers=2, **keys) as fleet, fleet.client(timeout_s=30.0) as client:
        assert isinstance(client, AbortClient)
        fleet.workers[1].start_generation("rid-1")
        fleet.agent.start_runs("instance-1", 2)
        assert [worker.url for worker in client.workers()] == list(fleet.worker_urls)
        report = client.abort_request("rid-1")
        assert [outcome.status for outcome in report.outcomes] == [Status.ACCEPTED, Status.ACCEPTED]
        assert fleet.workers[1].running == frozenset()
        assert client.flush(["instance-1"]).outcomes[0].cancelled == 2


def test_what_the_caller_says_of_the_client_wins() -> None:
    """Arguments given to `client` go before what the fleet would give."""
    with LocalFleet(workers=1) as fleet, fleet.client(router_url=None, worker_urls=fleet.worker_urls) as client:
        assert client.abort_request("rid-1").outcomes[0].via == "given"
        assert fleet.router.requests == ()


def test_a_worker_can_stand_alone() -> None:
    """A single server can be used without a fleet."""
    worker = LoopbackWorker(key="w")
    try:
        assert call(f"{worker.url}/v1/loads", headers={"authorization": "Bearer w"}).status == 200
    finally:
        worker.close()
