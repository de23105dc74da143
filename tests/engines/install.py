"""Install SGLang for the CPU and a tiny random model: ``python -m engines.install``, in ``tests``.

The wheel of SGLang is the unmodified one. What it needs and no CPU has (compiled CUDA parts) is stood in for by ``inside``.
Everything goes into one directory, made once: `.tox/engine-cache`, or what ``ABORT_SYNC_ENGINE_DIR`` names.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSIDE = HERE / "inside"
REQUIREMENTS = HERE / "requirements.txt"
# The label keeps pip from the build of several GB for CUDA, where that is what is offered under the plain version.
TORCH = "torch==2.13.0+cpu"


class CannotInstall(RuntimeError):
    """Raised when this machine cannot run the engine: the tests must then fail, not pass empty."""


def directory() -> Path:
    """Return where the engine is, or is to be, installed."""
    return Path(os.environ.get("ABORT_SYNC_ENGINE_DIR") or HERE.parents[1] / ".tox" / "engine-cache").resolve()


def python() -> Path:
    """Return the interpreter that has SGLang."""
    return directory() / "venv" / "bin" / "python"


def model() -> Path:
    """Return the directory of the model."""
    return directory() / "model"


def environment(home: Path) -> dict[str, str]:
    """Return the whole environment of an engine's process: no hub, no GPU, nothing of the caller's but the path.

    Byte code is written whatever the caller prefers: three quarters of a first start is compiling.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(INSIDE),
        "SGLANG_USE_CPU_ENGINE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def install() -> None:
    """Make the directory unless it is whole already; what an interrupted run left is thrown away first.

    Raises:
        CannotInstall: This is no x86_64 Linux, no Python 3.11, or there is no CPU build of torch.
    """
    found = (platform.system(), platform.machine(), platform.python_version_tuple()[:2])
    if found != ("Linux", "x86_64", ("3", "11")):
        raise CannotInstall(f"the engine tests need Linux, x86_64 and Python 3.11; this is {platform.platform()}, {sys.version}")
    recipe = b"".join(path.read_bytes() for path in (REQUIREMENTS, INSIDE / "make_model.py")) + TORCH.encode()
    wanted = hashlib.sha256(recipe).hexdigest()
    place, marker = directory(), directory() / "complete"
    place.mkdir(parents=True, exist_ok=True)
    # Of two runs at once the second waits. The processes below inherit the lock, so they keep it if this one is killed.
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if marker.exists() and marker.read_text() == wanted:
            return
        marker.unlink(missing_ok=True)
        for part in (place / "venv", model()):
            shutil.rmtree(part, ignore_errors=True)
        lock_file = lock.fileno()
        _run(lock_file, [sys.executable, "-m", "venv", str(place / "venv")])
        _packages(lock_file)
        _run(lock_file, [str(python()), str(INSIDE / "make_model.py"), str(model())], env=environment(place))
        marker.write_text(wanted)


def _packages(lock_file: int) -> None:
    """Install torch and the rest by two processes at once: unpacking takes a core each."""
    pip = [str(python()), "-m", "pip", "--disable-pip-version-check", "install", "-qq", "--no-compile", "--no-deps"]
    env = {name: value for name, value in os.environ.items() if name != "PIP_QUIET"}  # quieter than -qq hides the errors
    pips = [subprocess.Popen([*pip, *what], env=env, pass_fds=[lock_file]) for what in ([TORCH], ["-r", str(REQUIREMENTS)])]
    try:
        torch, rest = (one.wait() for one in pips)
    finally:
        for one in pips:
            one.kill()
            one.wait()
    if torch:
        raise CannotInstall(
            f"the engine tests need a CPU build of torch, and pip cannot install {TORCH}; "
            "let PIP_FIND_LINKS name a directory that has its wheel"
        )
    if rest:
        raise CannotInstall(f"pip could not install {REQUIREMENTS} (exit status {rest})")


def _run(lock_file: int, command: list[str], env: dict[str, str] | None = None) -> None:
    status = subprocess.run(command, env=env, pass_fds=[lock_file], check=False).returncode
    if status:
        raise CannotInstall(f"{' '.join(command)} ended with exit status {status}")


if __name__ == "__main__":
    started = time.monotonic()
    try:
        install()
    except CannotInstall as error:
        sys.exit(f"engines.install: {error}")
    print(f"engines.install: SGLang is ready in {directory()} after {time.monotonic() - started:.0f} s")
