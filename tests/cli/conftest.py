"""What the tests of the command line share: a clean environment, and a child process that runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

_VARIABLES = (
    "ABORT_SYNC_ROUTER_URL", "ABORT_SYNC_ROUTER_KEY", "ABORT_SYNC_WORKER_KEY", "ABORT_SYNC_WORKER_ADMIN_KEY",
    "AGENT_SERVER_URL", "SWE_AGENT_URL", "HARBOR_ADMIN_SECRET", "NO_COLOR", "NETRC",
    "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
)  # fmt: skip

Child = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test sees the settings of the machine it runs on."""
    for variable in _VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def child() -> Child:
    """Runs `python -m abort_sync ...` in a process of its own; `code=` runs that text in place of `-m abort_sync`."""

    def run(*words: str, code: str | None = None, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        start = ["-m", "abort_sync"] if code is None else ["-c", code]
        return subprocess.run(
            [sys.executable, *start, *words],
            input=stdin, capture_output=True, text=True, timeout=60, env={**os.environ, **variables}, check=False,
        )  # fmt: skip

    return run
