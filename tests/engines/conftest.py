"""Two engines and the real router for the whole run, what they wrote beside a failure, and the table of what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from abort_sync import AbortClient

from . import install, traffic
from .processes import Engine, Program, Router

PROGRAMS: list[Program] = []
MEASURED: list[tuple[str, list[float]]] = []


@pytest.fixture(scope="session")
def directory(tmp_path_factory) -> Path:
    """Return where the programs live and log; SGLang is installed by then."""
    install.install()
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="session")
def both_engines(directory) -> Iterator[tuple[Engine, Engine]]:
    """Start two engines at the same time."""
    engines = Engine(directory), Engine(directory)
    PROGRAMS.extend(engines)
    try:
        yield engines[0].wait(), engines[1].wait()
    finally:
        for engine in engines:
            engine.kill()


@pytest.fixture(scope="session")
def real_router(directory, both_engines) -> Iterator[Router]:
    router = Router(directory, *both_engines)
    PROGRAMS.append(router)
    try:
        yield router.wait()
    finally:
        router.kill()


@pytest.fixture
def engines(both_engines) -> Iterator[tuple[str, str]]:
    """Return the URLs of the two engines, idle; what a test leaves running is aborted after it."""
    urls = both_engines[0].url, both_engines[1].url
    yield urls
    for url in urls:
        traffic.abort_everything(url)


@pytest.fixture
def router(real_router, engines) -> str:
    """Return the URL of the real router in front of both engines."""
    return real_router.url


@pytest.fixture
def client(router) -> AbortClient:
    """Return a client that learns both engines from the router."""
    return AbortClient(router, timeout_s=30.0)


@pytest.fixture
def measured():
    """Return a function that puts seconds into the table at the end of the run."""
    return lambda what, seconds: MEASURED.append((what, list(seconds)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    if report.failed:
        report.sections += [(program.log.name, program.tail()) for program in PROGRAMS]
    return report


def pytest_terminal_summary(terminalreporter) -> None:
    if MEASURED:
        terminalreporter.section("measured against SGLang 0.5.23 on this machine")
        terminalreporter.write_line(f"{'seconds':70} {'times':>5} {'median':>8} {'worst':>8}")
        for what, seconds in MEASURED:
            terminalreporter.write_line(f"{what:70} {len(seconds):5} {statistics.median(seconds):8.3f} {max(seconds):8.3f}")
