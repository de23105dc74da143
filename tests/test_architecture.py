"""The rooms of the package and the direction of their imports."""

from __future__ import annotations

import ast
import importlib.util
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import abort_sync

# From the public face down. A room imports only from layers below its own.
LAYERS = (
    ("__main__",),
    ("cli", "testing"),
    ("__init__",),
    ("_hooks",),
    ("_client",),
    ("_guard", "_operations"),
    ("_args",),
    ("_sweep", "_flush"),
    ("_idle", "_fleet", "_worker_calls"),
    ("_listing", "_loads"),
    ("_call",),
    ("_fanout", "_policy", "_transport", "_judge"),
    ("_connection",),
    ("_sockets", "_config"),
    ("_names", "_events", "_answer", "_workers"),
    ("_report", "_rids", "_urls"),
    ("_deadline", "_errors"),
)
HEIGHT = {room: -depth for depth, layer in enumerate(LAYERS) for room in layer}

# Guests of the core see the public face alone, as a user's program would; the demo and the plugin show the fleet.
GUESTS = ("__main__", "cli", "testing")

# Who may know of it. Every other module outside the standard library is known to nobody.
KNOWN_TO = {
    "requests": ("_transport",),
    "urllib3": ("_transport",),
    "http.client": ("_transport", "_connection", "testing"),
    "ssl": ("_transport", "_connection", "_sockets", "testing"),
    "tenacity": ("_policy",),
    "concurrent.futures": ("_fanout", "cli", "testing"),
    "_thread": ("_fanout", "_names"),
    "pytest": ("testing",),
    "rich": ("cli",),
}


def imports(source: Path, package: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for each import, lazy ones included; name is "" for `import module`."""
    nodes: list[ast.AST] = [ast.parse(source.read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue  # a name for an annotation: nothing is used when the program runs
        nodes.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *(node.module or "").split("."))).strip(".")
            yield from ((module, alias.name) for alias in node.names)


def is_standard(module: str) -> bool:
    """Say whether the interpreter brings the module."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or spec.origin is None:
        return False
    if spec.origin in ("built-in", "frozen"):
        return True
    homes = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]
    origin = Path(spec.origin).resolve()
    return "site-packages" not in origin.parts and any(home in origin.parents for home in homes)


def breach(room: str, module: str, name: str, rooms: set[str]) -> str | None:
    """Say what is wrong with one import of a room, or None."""
    root, _, inner = module.partition(".")
    if root == "abort_sync":
        # `from . import _x` names a room; `from . import X` names the face.
        target = inner.partition(".")[0] or (name if name in rooms else "__init__")
        if target == room:
            return None
        if room in GUESTS and target.startswith("_") and target != "__init__":
            return f"{room} imports {target}: only the public face is for it"
        if target not in HEIGHT or (room in HEIGHT and room not in GUESTS and HEIGHT[target] >= HEIGHT[room]):
            return f"{room} imports {target}, which is not below it"
        return None
    for known, knowing in KNOWN_TO.items():
        if f"{module}.{name}.".startswith(f"{known}.") or f"{module}.".startswith(f"{known}."):
            return None if room in knowing else f"{room} imports {known}: only {', '.join(knowing)} may"
    return None if is_standard(module) else f"{room} imports {root}: no room may"


def breaches(home: Path) -> list[str]:
    """Return every breach in the package that lies in `home`, a directory named abort_sync."""
    sources = sorted(home.rglob("*.py"))
    rooms = {source.relative_to(home).with_suffix("").parts[0] for source in sources}
    found = [f"{room} stands in no layer" for room in sorted(rooms - set(HEIGHT))]
    for source in sources:
        inside = source.relative_to(home).with_suffix("").parts
        package = ("abort_sync", *inside[:-1])
        wrong = (breach(inside[0], module, name, rooms) for module, name in imports(source, package))
        found += [f"{source.relative_to(home)}: {text}" for text in wrong if text]
    return found


def test_imports_point_downward() -> None:
    """A room knows only the rooms below it, and each outside library has one room that knows it."""
    assert breaches(Path(abort_sync.__file__).parent) == []


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("_errors.py", "from ._report import Report", "_errors imports _report, which is not below it"),
        ("_errors.py", "def f():\n    from abort_sync import _client", "_errors imports _client, which is not below it"),
        ("_policy.py", "from ._transport import send", "_policy imports _transport, which is not below it"),
        ("_report.py", "from . import Report", "_report imports __init__, which is not below it"),
        ("_client.py", "import requests", "_client imports requests: only _transport may"),
        ("_client.py", "from http import client", "_client imports http.client: only"),
        ("_client.py", "from concurrent.futures import Future", "_client imports concurrent.futures: only _fanout"),
        ("_loads.py", "import numpy.random", "_loads imports numpy: no room may"),
        ("_helpers.py", "", "_helpers stands in no layer"),
        ("cli/_table.py", "from .._report import Report", "cli imports _report: only the public face is for it"),
        ("cli/_table.py", "from abort_sync._report import Report", "cli imports _report: only the public face"),
        ("testing/_fleet.py", "import requests.adapters", "testing imports requests: only _transport"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, file: str, line: str, expected: str) -> None:
    """Each kind of breach, made up, is named with its file."""
    home = tmp_path / "abort_sync"
    (home / "cli").mkdir(parents=True)
    (home / "testing").mkdir()
    for room in ("__init__", "_report", "_transport", "_client"):
        (home / f"{room}.py").write_text("")
    (home / file).write_text(line)
    found = breaches(home)
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("__init__.py", "from ._client import AbortClient"),
        ("_client.py", "from . import _report\nfrom ._transport import send\nimport json, os.path"),
        ("_transport.py", "import requests.adapters\nfrom urllib3.util import Timeout\nimport http.client"),
        ("cli/__init__.py", "from abort_sync import AbortClient\nfrom ._table import draw\nimport rich.table"),
        ("cli/_demo.py", "from abort_sync.testing import LocalFleet\nfrom .. import AbortClient\nimport http.server"),
        ("__main__.py", "from .cli import main"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, file: str, line: str) -> None:
    """Imports that point downward, to the face from a guest, or to one's own library are no breach."""
    home = tmp_path / "abort_sync"
    (home / "cli").mkdir(parents=True)
    for room in ("__init__", "_report", "_transport", "_client"):
        (home / f"{room}.py").write_text("")
    (home / file).write_text(line)
    assert breaches(home) == []
