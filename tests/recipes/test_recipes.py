"""Each recipe of the README runs, against a fleet on loopback, and does what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SAID = {
    "reward_pool.py": "[300.0, 300.0]",
    "oversampling.py": "2 samples\nabort_until_idle: ok",
    "agent_hook.py": "left: 0",
    "exit_and_signals.py": "exit status 143 still running: set()",
    "../observability/log_events.py": '"ok": true',
    "../observability/prometheus_metrics.py": 'abort_outcomes_total{operation="abort_request",status="ACCEPTED"} 2.0',
    "../observability/opentelemetry_spans.py": '"status": "UNREACHABLE"',
}


def run(*argv: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with warnings as errors."""
    return subprocess.run([sys.executable, "-W", "error", *argv], cwd=directory, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", SAID)
def test_recipe_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    """A recipe run as a script ends well and shows its effect."""
    done = run(str(HERE / name), directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert SAID[name] in done.stdout


@pytest.mark.ray
def test_ray_actors_abort_at_the_same_time(tmp_path: Path) -> None:
    """Two Ray actors that share one client stop their requests on every worker."""
    done = subprocess.run([sys.executable, str(HERE / "ray_actors.py")], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "[True, True] still running: 0" in done.stdout


@pytest.mark.parametrize("name", ["own_test_fleet.py", "own_test_responses.py"])
def test_own_test_passes_under_pytest(name: str, tmp_path: Path) -> None:
    """A user's own test passes with the package's fixtures, in a project without settings."""
    target = tmp_path / f"test_{name}"
    target.write_text((HERE / name).read_text(encoding="utf-8"), encoding="utf-8")
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", target.name, directory=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_every_recipe_is_run() -> None:
    """No file here or among the observability examples is forgotten."""
    found = {path.name for folder in (HERE, HERE.parent / "observability") for path in folder.glob("*.py")}
    known = {Path(name).name for name in SAID} | {"ray_actors.py", "own_test_fleet.py", "own_test_responses.py", "test_recipes.py"}
    assert found == known
