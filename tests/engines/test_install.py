"""A machine that cannot run the engine is told so, and nothing passes empty."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from . import install


def test_without_a_cpu_build_of_torch_it_fails_and_says_so(tmp_path):
    """Where pip finds no CPU build of torch, the script fails, names what is missing, and leaves nothing that looks complete."""
    left_over = tmp_path / "venv" / "left-over"
    left_over.mkdir(parents=True)
    nothing = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "ABORT_SYNC_ENGINE_DIR": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-m", "engines.install"],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **nothing},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    assert "need a CPU build of torch" in done.stderr
    assert not (tmp_path / "complete").exists()
    assert not left_over.exists()


@pytest.mark.parametrize(("name", "value"), [("system", "Darwin"), ("machine", "aarch64"), ("python_version_tuple", ("3", "12", "0"))])
def test_another_kind_of_machine_is_refused(tmp_path, monkeypatch, name, value):
    """Another system, processor or Python than SGLang's wheels are for ends with a sentence before anything is made."""
    monkeypatch.setenv("ABORT_SYNC_ENGINE_DIR", str(tmp_path / "engine"))
    monkeypatch.setattr(platform, name, lambda: value)

    with pytest.raises(install.CannotInstall, match=r"need Linux, x86_64 and Python 3\.11"):
        install.install()

    assert not (tmp_path / "engine").exists()
