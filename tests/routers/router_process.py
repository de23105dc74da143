"""Start and stop one router process, and record every attempt of it to reach the outside."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Callable, Optional

READY_S = 60.0
REPOSITORY = Path(__file__).resolve().parents[2]


def wait_until(claim: Callable[[], bool], what: str, timeout_s: float = READY_S) -> None:
    """Poll `claim` every 50 ms until it is true; fail with `what` after `timeout_s`."""
    end = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < end, f"after {timeout_s:g} s still not: {what}"
        time.sleep(0.05)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nothing listens on.

    It is below the range from which the system takes ports for outgoing connections and for servers that do not care:
    a router takes a second or more to bind it, and nobody else is given it meanwhile.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(lowest // 2, lowest)
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as candidate:
            try:
                candidate.bind((host, port))
            except OSError:
                continue
            return port


def interpreter(requirement: str, in_extra: bool) -> str:
    """Return a Python that has `requirement`: this one, or that of a venv made once and kept.

    Several versions of sglang-router cannot share a venv. The directory is `ABORT_SYNC_ROUTER_DIR`, or
    `.tox/router-cache` in the repository.

    Raises:
        RuntimeError: It is not installed, or cannot be; the text says what to do or what pip said.
    """
    if in_extra:
        name, _, version = requirement.partition("==")
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            found = "missing"
        if found != version:
            raise RuntimeError(f"{requirement} is wanted, but it is {found}: install the extra `routers`")
        return sys.executable
    cache = Path(os.environ.get("ABORT_SYNC_ROUTER_DIR") or REPOSITORY / ".tox" / "router-cache").resolve()
    home = cache / f"{requirement}-python{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    done = home / "installed"
    if not done.exists():
        venv.create(home, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        result = subprocess.run([*pip, "--only-binary", ":all:", requirement], capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"pip could not install {requirement}:\n{result.stderr}")
        done.touch()
    return str(python)


class OutsideRecorder:
    """An HTTP proxy that forwards nothing: it records the first line of each request and answers 502."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with connection:
                connection.settimeout(5.0)
                try:
                    line = connection.recv(4096).split(b"\r\n", 1)[0].decode("latin-1")
                    self.seen.append(line)
                    connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                except OSError as error:
                    self.seen.append(f"a connection without a request ({error})")

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10.0)


class RouterProcess:
    """One running router: its own process group, its output in a file, its proxy the recorder."""

    def __init__(self, python: str, arguments: Sequence[str], log: Path, outside: OutsideRecorder) -> None:
        self.log = log
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment.pop("PYTHONPATH", None)
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            environment[name] = environment[name.upper()] = outside.url
        environment["no_proxy"] = environment["NO_PROXY"] = "127.0.0.1,localhost,::1"
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                [python, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=log.parent,
                start_new_session=True,
            )

    @property
    def exit_code(self) -> Optional[int]:
        """The exit code, or None while it runs."""
        return self._process.poll()

    def tail(self, lines: int = 40) -> str:
        """The last lines of its output, without colours."""
        text = re.sub(r"\x1b\[[0-9;]*m", "", self.log.read_text("utf-8", "replace"))
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """Kill the whole process group and wait for the router to be gone."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(30.0)
