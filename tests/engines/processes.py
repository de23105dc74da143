"""Start and end the real programs: engines and the router, on loopback, each in a process group of its own."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import requests

from . import install

READY_S = 240.0  # an engine is ready in 15 s on an idle machine, and in several times that on a busy one
SLOTS = 16  # requests that one engine decodes at a time; more wait
# --sleep-on-idle: else an idle scheduler holds a whole core.
ARGUMENTS = f"""
    --device cpu --dtype float32 --attention-backend torch_native --sampling-backend pytorch --grammar-backend none
    --disable-cuda-graph --disable-overlap-schedule --disable-radix-cache --sleep-on-idle
    --max-total-tokens 500000 --log-level-http warning --max-running-requests {SLOTS} --context-length 131072 --mem-fraction-static 0.5
"""


class Program:
    """A program that serves HTTP on a free port of 127.0.0.1, and writes to a log file."""

    def __init__(self, directory: Path, name: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = directory / f"{name}-{self.port}.log"
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, command: list[str], env: dict[str, str]) -> None:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, env=env, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def wait_until(self, is_ready) -> None:
        """Wait until the program answers as it should; one that ends, or never does, fails with its log."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                if is_ready():
                    return
            except requests.RequestException:
                pass  # not listening yet
            time.sleep(0.1)
        status = self.process.poll()
        self.kill()
        raise RuntimeError(f"{self.log.name}: not ready (exit status {status})\n{self.tail()}")

    def kill(self) -> None:
        """End the whole process group at once, and wait for it."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it is gone already
            self.process.wait()

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Engine(Program):
    """A real SGLang server with the tiny model; ``extra`` are server arguments."""

    def __init__(self, directory: Path, *extra: str) -> None:
        super().__init__(directory, "engine")
        # Without the file a store listens on every interface, on a random port.
        env = {
            **install.environment(directory),
            "SGLANG_DISTRIBUTED_INIT_METHOD_OVERRIDE": f"file://{directory}/dist-{self.port}",
            "GLOO_SOCKET_IFNAME": "lo",
            "TMPDIR": str(directory),
        }
        program = [str(install.python()), str(install.INSIDE / "serve.py"), "--model-path", str(install.model())]
        address = ["--host", "127.0.0.1", "--port", str(self.port)]
        self.start([*program, *address, *ARGUMENTS.split(), *extra], env)

    def wait(self) -> Engine:
        self.wait_until(lambda: requests.get(f"{self.url}/health", timeout=10).status_code == 200)
        return self


class Router(Program):
    """The real `sglang-router` in front of engines that are ready."""

    def __init__(self, directory: Path, *engines: Engine) -> None:
        super().__init__(directory, "router")
        self._engines = len(engines)
        command = [sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]
        command += ["--worker-startup-check-interval", "1", "--log-level", "warn"]
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(directory), "HF_HUB_OFFLINE": "1"}
        self.start([*command, "--worker-urls", *(engine.url for engine in engines)], environment)

    def wait(self) -> Router:
        self.wait_until(lambda: len(self._listed()) == self._engines)
        return self

    def _listed(self) -> list[dict[str, object]]:
        answer = requests.get(f"{self.url}/workers", timeout=10)
        return answer.json()["workers"] if answer.status_code == 200 else []


def free_port() -> int:
    """Return a free port that no other program is given while ours, seconds later, has not bound it yet.

    Ports below 32768 are not handed out by the kernel; one of those would be the next test server's.
    """
    ports = random.Random()
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", ports.randrange(20_000, 32_000)))
            except OSError:
                continue  # somebody has it
            return probe.getsockname()[1]
