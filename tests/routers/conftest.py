"""Each router is started once per mode; the matrix of results is printed at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from router_matrix import Matrix
from router_process import interpreter
from router_programs import MILES, MODES, PROGRAMS, Program
from router_stage import Stage, staged


def _chosen() -> list[Program]:
    choice = os.environ.get("ABORT_SYNC_ROUTERS", "")
    if choice not in ("", "all"):
        raise pytest.UsageError(f"ABORT_SYNC_ROUTERS: 'all' or nothing is wanted, not {choice!r}")
    return [*(program for program in PROGRAMS if program.in_extra or choice == "all"), MILES]


_programs = _chosen()
_matrix = Matrix(_programs)
# One object a pair: pytest keeps a session's fixture as long as its parameter is the same object.
_pairs = {(program.name, mode): (program, mode) for program in _programs for mode in MODES}
_PAIR = pytest.StashKey[tuple[Program, str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only(**facts): run only for the routers whose `Program` has these values")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program" in metafunc.fixturenames:
        real = [one for one in _programs if one is not MILES]
        metafunc.parametrize("program", real, ids=[one.name.replace(" ", "-") for one in real])
    if "stage" not in metafunc.fixturenames:
        return
    mode = metafunc.module.MODE
    facts = [fact for mark in metafunc.definition.iter_markers("only") for fact in mark.kwargs.items()]
    offering = [one for one in _programs if mode not in one.not_offered]
    rows = [one for one in offering if all(getattr(one, name) == value for name, value in facts)]
    names = [one.name.replace(" ", "-") for one in rows]
    metafunc.parametrize("stage", [_pairs[one.name, mode] for one in rows], ids=names, indirect=True, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of a pair together, so that it is started once, after pytest's own order.

    Tests for which none of this run's routers is are left out (not skipped: nothing is missing).
    """
    homeless = []
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and "stage" in callspec.params:
            pair = callspec.params["stage"]
            if isinstance(pair, tuple):
                item.stash[_PAIR] = pair
            else:
                homeless.append(item)
    order = {id(pair): place for place, pair in enumerate(_pairs.values())}
    items[:] = [item for item in items if item not in homeless]
    items.sort(key=lambda item: order[id(item.stash[_PAIR])] if _PAIR in item.stash else -1)
    config.hook.pytest_deselected(items=homeless)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install what is missing before the first test: pip may take longer than a test is allowed to."""
    real = {item.stash[_PAIR][0].name: item.stash[_PAIR][0] for item in session.items if _PAIR in item.stash}
    real.pop(MILES.name, None)
    if session.config.option.collectonly:
        return
    with ThreadPoolExecutor() as pool:
        try:
            list(pool.map(lambda one: interpreter(one.requirement, one.in_extra), real.values()))
        except RuntimeError as error:
            pytest.exit(str(error), returncode=1)


@pytest.fixture(scope="session")
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The router and its workers, started once per router and mode."""
    program, mode = request.param
    with staged(program, mode, tmp_path_factory.mktemp("router")) as made:
        yield made


@pytest.fixture(autouse=True)
def _idle_afterwards(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "stage" in request.fixturenames:
        request.getfixturevalue("stage").end_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]  # pytest's hooks have no public types
    report = yield
    if _PAIR in item.stash:
        program, mode = item.stash[_PAIR]
        if report.failed or report.when == "call":
            _matrix.record(program.name, mode, report.passed)
        made = getattr(item, "funcargs", {}).get("stage")
        if report.failed and made is not None and made.process is not None:
            report.sections.append(("the router's output", made.process.tail()))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _matrix:
        return
    terminalreporter.section("router × mode")
    terminalreporter.write(_matrix.markdown())
    path = os.environ.get("ABORT_SYNC_MATRIX")
    if path:
        Path(path).write_text(_matrix.markdown(), "utf-8")
