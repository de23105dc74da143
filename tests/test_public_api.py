"""The public face: sorted, documented, picklable, and free of other libraries' types."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

import abort_sync

# Fixed: scripts import these.
PROMISED = {
    "AbortClient",
    "AbortIncompleteError",
    "AbortSyncError",
    "Attempt",
    "AttemptEvent",
    "ConfigurationError",
    "Keys",
    "Limits",
    "Outcome",
    "OutcomeEvent",
    "Report",
    "ReportEvent",
    "RoundEvent",
    "RouterError",
    "Status",
    "Worker",
    "abort",
    "abort_sglang_request",
    "expand_batch_rids",
    "is_aborted",
    "new_rid",
    "teardown",
}
FOREIGN = ("requests", "tenacity", "urllib3")

PUBLIC = {name: getattr(abort_sync, name) for name in abort_sync.__all__}
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
ERRORS = {name: value for name, value in CLASSES.items() if issubclass(value, BaseException)}


def own_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each public function, and each public method that a public class defines itself."""
    for name, value in PUBLIC.items():
        if inspect.isfunction(value):
            yield name, value
    for name, cls in CLASSES.items():
        for method, raw in vars(cls).items():
            value = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
            if inspect.isfunction(value) and not method.startswith("_"):
                yield f"{name}.{method}", value


CALLABLES = dict(own_callables())


def parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names that a caller can give."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def has_users_init(cls: type) -> bool:
    """Say whether users call the class: errors and members of enums are made by the package, and so are guards."""
    return "__init__" in vars(cls) and not issubclass(cls, BaseException) and cls is not abort_sync.AbortGuard


def raises(function: Callable[..., Any]) -> bool:
    """Say whether the function's own body has a `raise`."""
    return any(isinstance(node, ast.Raise) for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))))


def test_all_is_sorted_and_complete() -> None:
    """`__all__` is sorted, names nothing twice, and holds every promised name."""
    assert abort_sync.__all__ == sorted(set(abort_sync.__all__))
    assert PROMISED.issubset(abort_sync.__all__)


def test_star_import_gives_all_of_it() -> None:
    """Each name of `__all__` can be imported."""
    namespace: dict[str, Any] = {}
    exec("from abort_sync import *", namespace)
    assert set(abort_sync.__all__) <= set(namespace)


def test_type_checkers_see_the_same_names() -> None:
    """Names that are loaded when asked for are imported for type checkers, each of them and no other."""
    tree = ast.parse(Path(abort_sync.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    names = [alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(names) == abort_sync.__all__


def test_import_is_cheap() -> None:
    """Reward processes import the package thousands of times: a bare import loads no library and no room."""
    code = "import sys; before = set(sys.modules); import abort_sync; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({*FOREIGN, "asyncio", "concurrent", "http", "logging", "rich", "ssl"})
    assert [name for name in done.stdout.split() if name.startswith("abort_sync.")] == []


def test_public_things_call_the_package_their_home() -> None:
    """Nothing public is another library's."""
    for name, value in PUBLIC.items():
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__module__.split(".")[0] == "abort_sync", name


@pytest.mark.parametrize("name", CALLABLES)
def test_callable_is_documented(name: str) -> None:
    """A docstring says in one sentence what it does, then what it takes, gives and raises."""
    function = CALLABLES[name]
    text = inspect.getdoc(function) or ""
    first = text.partition("\n")[0]
    assert first.endswith((".", ":")), "the first line is one sentence"
    given = parameters(function)
    assert len(given) < 2 or "Args:" in text
    assert [one for one in given if not re.search(rf"\b{one}\b", text)] == []
    # A report explains itself.
    gives = function.__annotations__.get("return") not in (None, "None", "Report")
    assert not gives or re.search(r"\b(returns?|yields?|makes?|tells?|says?|whether)\b", text, re.IGNORECASE)
    assert not raises(function) or "Raises:" in text


@pytest.mark.parametrize("name", CLASSES)
def test_class_is_documented(name: str) -> None:
    """A class says what it is, and names each parameter of its constructor."""
    cls = CLASSES[name]
    text = vars(cls).get("__doc__") or ""
    assert text.partition("\n")[0].endswith("."), "the first line is one sentence"
    given = parameters(cls.__init__) if has_users_init(cls) else []
    assert [one for one in given if not re.search(rf"\b{one}\b", text)] == []


def test_every_error_is_public() -> None:
    """A caller can name each error that the package raises."""
    module = importlib.import_module("abort_sync._errors")
    declared = {name for name, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__}
    assert declared == set(ERRORS)


@pytest.mark.parametrize("name", ERRORS)
def test_error_survives_pickle(name: str) -> None:
    """An error raised in a worker process arrives whole in the parent."""
    cls = ERRORS[name]
    is_about_report = issubclass(cls, abort_sync.AbortIncompleteError)
    error = cls(abort_sync.Report(operation="abort_all", error="no workers") if is_about_report else "what to do")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == str(error)
    assert copy.args == error.args
    assert vars(copy) == vars(error)


def test_error_tree_has_one_base() -> None:
    """`except AbortSyncError` catches every error of the package, and misuse is also a ValueError."""
    assert all(issubclass(error, abort_sync.AbortSyncError) for error in ERRORS.values())
    assert issubclass(abort_sync.ConfigurationError, ValueError)


def test_annotations_name_no_other_library() -> None:
    """No public annotation needs requests, urllib3 or tenacity: their releases do not change this face."""
    annotated = {**CLASSES, **CALLABLES, **{f"{name}()": cls.__init__ for name, cls in CLASSES.items()}}
    foreign = []
    for name, value in annotated.items():
        module = inspect.getmodule(value)
        known = vars(module) if module else {}
        for annotation in getattr(value, "__annotations__", {}).values():
            for word in re.findall(r"[\w.]+", str(annotation)):
                root = word.partition(".")[0]
                home = getattr(known.get(root), "__module__", None) or getattr(known.get(root), "__name__", root)
                if str(home).partition(".")[0] in FOREIGN:
                    foreign.append(f"{name}: {annotation}")
    assert foreign == []
