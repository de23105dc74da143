"""The CI script runs the README's own test command, and nothing when it cannot tell which that is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]


def ci_run(tree: Path, *readme: str) -> subprocess.CompletedProcess[str]:
    """Run `.ci/run` in a tree that holds nothing but it and a README of these lines."""
    (tree / ".ci").mkdir()
    shutil.copy(CHECKOUT / ".ci" / "run", tree / ".ci" / "run")
    (tree / "README.md").write_text("".join(f"{line}\n" for line in readme))
    return subprocess.run(["bash", ".ci/run"], cwd=tree, capture_output=True, text=True, timeout=120)


def test_readme_command_is_run_where_the_readme_lies(tmp_path: Path) -> None:
    """The command of the README runs in the repository's root, and pytest's closing lines are told again at the end."""
    closing = "===== 3 passed in 0.10s ====="
    command = f"pwd && echo '{closing}' && true tox run"
    done = ci_run(tmp_path, "prose about tox run", "```bash", "true tox run -e lint", f"{command}  # tests", "```")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert str(tmp_path.resolve()) in lines
    assert lines[-1] == closing
    assert lines.count(closing) == 2


@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 7; tox run", 7), ("false && tox run", 1), ("true tox run", 1)],
    ids=["failed", "stopped early", "no test ran"],
)
def test_failure_is_told_by_the_exit_status(tmp_path: Path, command: str, status: int) -> None:
    """A command that fails, or that ran no test, makes the script fail."""
    assert ci_run(tmp_path, "```bash", command, "```").returncode == status


@pytest.mark.parametrize(
    "readme",
    [["tox run"], ["```", "true tox run", "$ tox run", "```"]],
    ids=["none in a block", "two"],
)
def test_unclear_readme_fails(tmp_path: Path, readme: list[str]) -> None:
    """Without exactly one test command in its code blocks the README cannot be obeyed, and the script says so."""
    done = ci_run(tmp_path, *readme)
    assert done.returncode == 1
    assert 'exactly one line that ends in "tox run"' in done.stderr
