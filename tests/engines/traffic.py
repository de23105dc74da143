"""Generations in flight: requests that a blocking script would make, each in a thread of its own."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import requests

PROMPT = [1, 2, 3]
ENDLESS = 30_000  # tokens: most of a minute of decoding. An engine sets room for all of them aside before it starts a request


class Generation:
    """One `POST /generate`, and what came of it: ``answer`` (the last event of a stream) or ``error``."""

    def __init__(
        self,
        url: str,
        rid: str,
        *,
        tokens: int = ENDLESS,
        prompt: list[int] | None = None,
        stream: bool = False,
        key: str | None = None,
        path: str = "/generate",
        body: dict[str, Any] | None = None,
    ) -> None:
        self.url, self.rid = url, rid
        self.answer: dict[str, Any] | None = None
        self.error: Exception | None = None
        self.ended_at: float | None = None  # of time.monotonic()
        self._path, self._stream, self._key = path, stream, key
        self._body = body or {
            "rid": rid,
            "input_ids": prompt or PROMPT,
            "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True},
            "stream": stream,
        }
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            with requests.post(self.url + self._path, json=self._body, headers=headers, timeout=300, stream=self._stream) as response:
                response.raise_for_status()
                if self._stream:
                    for line in response.iter_lines():
                        if line.startswith(b"data: {"):
                            self.answer = json.loads(line[6:])
                else:
                    self.answer = response.json()
        except requests.RequestException as error:
            self.error = error
        finally:
            self.ended_at = time.monotonic()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def wait(self, timeout_s: float = 60.0) -> dict[str, Any]:
        """Return the answer; raises what the request raised, or AssertionError if it is still running."""
        self._thread.join(timeout_s)
        assert not self.is_running, f"{self.rid} is still running after {timeout_s} s"
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer


def start(url: str, count: int, prefix: str = "rid", **options: Any) -> list[Generation]:
    """Start generations with rids of which none is a prefix of another."""
    return [Generation(url, f"{prefix}-{number:03d}", **options) for number in range(count)]


def load(url: str, key: str | None = None) -> dict[str, Any]:
    """Return the load of an engine's only rank, or an empty dictionary when it could not be read in time."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = requests.get(f"{url}/v1/loads?include=core", headers=headers, timeout=60)
    answer.raise_for_status()
    loads = answer.json()["loads"]
    return loads[0] if loads else {}


def wait_for(url: str, *, running: int | None = None, waiting: int | None = None, key: str | None = None) -> dict[str, Any]:
    """Poll an engine's load until it says so, and return it."""
    deadline = time.monotonic() + 60.0
    wanted = {"num_running_reqs": running, "num_waiting_reqs": waiting}
    while time.monotonic() < deadline:
        found = load(url, key)
        if found and all(number is None or found[name] == number for name, number in wanted.items()):
            return found
        time.sleep(0.01)
    raise AssertionError(f"{url}: wanted {wanted}, found {found}")


def abort_everything(url: str, key: str | None = None, admin_key: str | None = None) -> None:
    """Leave an engine without work, by its own means and not by the client under test; its requests were seen running before."""
    headers = {"Authorization": f"Bearer {admin_key}"} if admin_key else {}
    deadline = time.monotonic() + 60.0
    names = ("num_running_reqs", "num_waiting_reqs", "num_used_tokens", "num_waiting_uncached_tokens")
    while time.monotonic() < deadline:
        requests.post(f"{url}/abort_request", json={"rid": "", "abort_all": True}, headers=headers, timeout=60).raise_for_status()
        time.sleep(0.05)
        found = load(url, key)
        if found and not any(found[name] for name in names):
            return
    raise AssertionError(f"{url} does not become idle: {found}")
