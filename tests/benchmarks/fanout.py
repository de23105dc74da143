"""Measure the fan-out against every other way, in one run, in turn, medians and ratios.

``python -m tests.benchmarks.fanout [--quick] [--write]`` prints a table; ``--write`` puts it into the README and draws
``docs/images/benchmark.svg``. Only ratios taken in one run mean anything: absolute times are those of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

from abort_sync import AbortClient, AttemptEvent, Event

from . import ways

ROOT = Path(__file__).resolve().parents[2]
OURS, REUSED, ASYNCIO, NAIVE = (
    "abort_sync, client made for it",
    "abort_sync, client reused",
    "asyncio original (aiohttp)",
    "requests in a thread pool",
)
SIZES = (8, 64, 256, 1024)


@contextlib.contextmanager
def server(workers: int, delay_s: float = 0.0, has_hung: bool = False) -> Iterator[str]:
    """Run the server process and give the router's URL."""
    argv = [sys.executable, "-m", "tests.benchmarks.server", str(workers), str(delay_s), *(["hung"] if has_hung else [])]
    process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield f"http://127.0.0.1:{json.loads(process.stdout.readline())[0]}"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def in_turn(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each call, all of them measured in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seconds[name].append(timed(call))
    return {name: statistics.median(all_) for name, all_ in seconds.items()}


def fan_outs(is_quick: bool) -> dict[int, dict[str, float]]:
    """Measure every way at every size."""
    found = {}
    for size in SIZES:
        with server(size) as router:
            calls: dict[str, Callable[[], object]] = {name: lambda way=way: way(router) for name, way in ways.WAYS.items()}
            reused = ways.ours_reused(router)
            calls[REUSED] = lambda reused=reused: reused(router)
            in_turn(calls, 1)  # warm
            found[size] = in_turn(calls, 3 if is_quick else {8: 40, 64: 20, 256: 9, 1024: 5}[size])
        print(
            f"N={size}: " + ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in found[size].items()),
            file=sys.stderr,
            flush=True,
        )
    return found


def slow_workers(rounds: int) -> dict[str, float]:
    """256 workers of 100 ms each: how far is a call from the slowest healthy one, with and without one that hangs?"""
    found = {}
    with server(256, 0.1) as router:
        client = AbortClient(router, timeout_s=20)
        calls = {
            "ours": lambda: client.abort_request("r"),
            "asyncio": lambda: ways.asyncio_original(router),
            "naive": lambda: ways.naive_pool(router),
        }
        found = {f"256 workers of 100 ms, {name}": seconds for name, seconds in in_turn(calls, rounds).items()}
    with server(256, 0.1, has_hung=True) as router:
        found["256 workers of 100 ms, one hangs: the last healthy one"] = statistics.median(_last_healthy(router) for _ in range(rounds))
    return found


def _last_healthy(router: str) -> float:
    """Return the seconds after which the last healthy worker had answered."""
    answered = [0.0]

    def on_event(event: Event) -> None:
        if isinstance(event, AttemptEvent) and event.kind == "abort" and event.attempt.http_status == 200:
            answered.append(time.perf_counter() - began)

    client = AbortClient(router, timeout_s=2, on_event=on_event)
    began = time.perf_counter()
    client.abort_request("r")
    return max(answered)


def whole_process(rounds: int) -> dict[str, tuple[float, float]]:
    """Return wall seconds and peak MiB of a whole script, by way, at 64 workers."""
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "asyncio": []}
    with server(64) as router:
        for _ in range(rounds):
            for name, runs in found.items():
                argv = [sys.executable, str(Path(__file__).with_name("whole_process.py")), name, router]
                began = time.perf_counter()
                pid = os.posix_spawn(sys.executable, argv, dict(os.environ))
                _, status, usage = os.wait4(pid, 0)
                assert status == 0
                runs.append((time.perf_counter() - began, usage.ru_maxrss / 1024))
    return {name: (statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs)) for name, runs in found.items()}


def imports(rounds: int) -> dict[str, float]:
    """Return the seconds that a process takes to import the dependencies, and these with this library."""
    texts = {
        "requests + tenacity": "import requests, tenacity",
        "and abort_sync": "import requests, tenacity; from abort_sync import AbortClient",
    }
    return in_turn(
        {name: lambda text=text: subprocess.run([sys.executable, "-c", text], check=True) for name, text in texts.items()}, rounds
    )


def memory() -> float:
    """Return the peak MiB that Python allocates for a call at 1,000 workers."""
    with server(1000) as router:
        client = AbortClient(router, timeout_s=60)
        client.abort_request("r")
        tracemalloc.start()
        client.abort_request("r")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak / 2**20


def many_rids(rounds: int) -> float:
    """Return the seconds for 300 rids at 64 workers."""
    rids = [f"rid-{n:03d}-x" for n in range(300)]
    with server(64) as router:
        client = AbortClient(router, timeout_s=120)

        def call() -> None:
            assert client.abort_requests(rids).ok

        return statistics.median(timed(call) for _ in range(rounds))


def table(sizes: dict[int, dict[str, float]], extra: list[tuple[str, str]]) -> str:
    """Return the tables in Markdown."""
    names = [OURS, REUSED, *(name for name in ways.WAYS if name != OURS)]
    lines = ["| milliseconds for N workers | " + " | ".join(str(size) for size in sizes) + " |", "|---|" + "--:|" * len(sizes)]
    lines += [f"| {name} | " + " | ".join(f"{sizes[size][name] * 1e3:.1f}" for size in sizes) + " |" for name in names]
    for other in (ASYNCIO, NAIVE):
        lines.append(
            f"| **ratio, reused / {other}** | " + " | ".join(f"**{sizes[size][REUSED] / sizes[size][other]:.2f}**" for size in sizes) + " |"
        )
    lines.append("| microseconds a worker, reused | " + " | ".join(f"{sizes[size][REUSED] / size * 1e6:.0f}" for size in sizes) + " |")
    lines += ["", "| also measured | |", "|---|--:|", *(f"| {name} | {value} |" for name, value in extra)]
    return "\n".join(lines)


def plot(sizes: dict[int, dict[str, float]], path: Path) -> None:
    """Draw the time a worker by size."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "abort_sync"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5))
    for name in [REUSED, *(name for name in ways.WAYS if name != OURS)]:
        is_ours = name == REUSED
        axes.plot(list(sizes), [sizes[size][name] / size * 1e6 for size in sizes], marker="o", label=name, linewidth=3 if is_ours else 1.2)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(list(sizes), [str(size) for size in sizes])
    axes.set_xlabel("workers")
    axes.set_ylabel("microseconds a worker")
    axes.set_title("One abort on every worker, on loopback")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(path)
    path.write_text(_bare(path.read_text(encoding="utf-8")), encoding="utf-8")


def _bare(svg: str) -> str:
    """Return a picture without the addresses that it names and nobody needs."""
    svg = re.sub(r"<!DOCTYPE.*?>\s*|\s*<metadata>.*?</metadata>| xmlns:xlink=\"[^\"]*\"", "", svg, flags=re.DOTALL)
    return svg.replace("xlink:href", "href")


def main() -> None:
    """Measure, print, and write if told to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--write", action="store_true", help="put the table into README.md and draw docs/images/benchmark.svg")
    options = parser.parse_args()
    logging.getLogger("abort_sync").setLevel(logging.ERROR)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192) if hard > 0 else 8192, hard))
    rounds = 3 if options.quick else 9
    sizes = fan_outs(options.quick)
    slow = slow_workers(rounds)
    process = whole_process(rounds)
    importing = imports(2 * rounds)
    with_us, without = importing["and abort_sync"], importing["requests + tenacity"]
    extra = [(name, f"{seconds * 1e3:.0f} ms") for name, seconds in slow.items()]
    extra += [
        ("whole process at 64 workers, ours / asyncio script", f"{process['ours'][0] / process['asyncio'][0]:.2f}"),
        ("its peak memory, ours / asyncio script", f"{process['ours'][1]:.0f} / {process['asyncio'][1]:.0f} MiB"),
        ("import over that of requests + tenacity", f"{(with_us - without) * 1e3:.0f} ms"),
        ("peak memory of a call, 1,000 workers", f"{memory():.1f} MiB"),
        ("300 rids on 64 workers, a request", f"{many_rids(3) / 300 / 64 * 1e6:.0f} µs"),
    ]
    text = table(sizes, extra)
    print(text)
    if options.write:
        readme = ROOT / "README.md"
        head, begin, rest = readme.read_text(encoding="utf-8").partition("<!-- benchmark: begin -->\n")
        _, end, tail = rest.partition("<!-- benchmark: end -->")
        assert begin and end, "README.md has no place for the benchmark"
        readme.write_text(f"{head}{begin}{text}\n{end}{tail}", encoding="utf-8")
        plot(sizes, ROOT / "docs" / "images" / "benchmark.svg")


if __name__ == "__main__":
    main()
