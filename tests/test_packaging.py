"""What a user gets from the wheel, and what the build must not put there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import abort_sync

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCES = ("abort_sync", "LICENSE", "README.md", "MANIFEST.in", "setup.cfg", "setup.py")
RUNTIME = [Requirement(text) for text in metadata.requires("abort-sync") or () if "extra ==" not in text]


def package_files(root: Path) -> set[str]:
    """Return the files of the package under `root`, less what the interpreter leaves beside them."""
    found = (path.relative_to(root) for path in (root / "abort_sync").rglob("*") if path.is_file())
    return {path.as_posix() for path in found if "__pycache__" not in path.parts and path.suffix not in (".pyc", ".pyo")}


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names in a wheel built from a copy of the checkout in which an older build has left a module."""
    tree = tmp_path_factory.mktemp("tree")
    for name in SOURCES:
        source = CHECKOUT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tree / name)
    stale = tree / "build" / "lib" / "abort_sync" / "_renamed_since.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    build = "from setuptools.build_meta import __legacy__ as backend; print(backend.build_wheel('dist'))"
    subprocess.run([sys.executable, "-c", build], cwd=tree, check=True, stdout=subprocess.PIPE, timeout=120)
    (built,) = (tree / "dist").iterdir()
    with zipfile.ZipFile(built) as wheel:
        return set(wheel.namelist())


def test_the_tests_import_the_wheel() -> None:
    """Tests of the checkout would miss a file that the wheel lacks: run them by tox, or against an installed wheel."""
    assert CHECKOUT / "abort_sync" not in Path(abort_sync.__file__).resolve().parents


def test_tests_directory_is_no_package() -> None:
    """With `tests/__init__.py` pytest would put the checkout on the path, ahead of the wheel."""
    assert not (CHECKOUT / "tests" / "__init__.py").exists()


def test_every_file_of_the_package_is_installed() -> None:
    """The installed package has the files of the checkout: none is lost, none is left over."""
    assert package_files(Path(abort_sync.__file__).parents[1]) == package_files(CHECKOUT)


def test_wheel_holds_the_package_and_its_metadata(wheel_names: set[str]) -> None:
    """A wheel holds the package and its metadata, and nothing that an earlier build left."""
    assert {name for name in wheel_names if ".dist-info/" not in name} == package_files(CHECKOUT)
    assert any(name.endswith("/LICENSE") for name in wheel_names)


def test_build_leaves_no_build_directory() -> None:
    """A build made in the checkout, as tox makes it, leaves no `build/` for the next one to pack."""
    assert not (CHECKOUT / "build").exists()


def test_types_are_shipped() -> None:
    """`py.typed` lies in the installed package, so a user's type checker reads its annotations."""
    assert (Path(abort_sync.__file__).parent / "py.typed").is_file()


def test_version_is_told_once() -> None:
    """The version of the metadata is the package's own."""
    assert metadata.version("abort-sync") == abort_sync.__version__


def test_metadata_names_licence_and_python() -> None:
    """An installer reads the licence and the oldest Python from the metadata."""
    about = metadata.metadata("abort-sync")
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.9"


@pytest.mark.parametrize(
    ("group", "value"),
    [("console_scripts", "abort_sync.cli:main"), ("pytest11", "abort_sync.testing._plugin")],
)
def test_entry_points_load(group: str, value: str) -> None:
    """The command and the pytest plugin are installed, and what they name can be imported."""
    (point,) = (point for point in metadata.distribution("abort-sync").entry_points if point.group == group)
    assert point.value == value
    point.load()


def test_command_is_installed() -> None:
    """`abort-sync` stands beside the interpreter and answers with the version."""
    command = Path(sys.executable).with_name("abort-sync")
    done = subprocess.run([command, "--version"], stdout=subprocess.PIPE, check=True, text=True, timeout=60)
    assert abort_sync.__version__ in done.stdout


def test_runtime_dependencies_have_lower_bounds_only() -> None:
    """An upper bound would make the package uninstallable beside a newer stack."""
    assert {requirement.name for requirement in RUNTIME} == {"requests", "tenacity", "urllib3"}
    for requirement in RUNTIME:
        assert [bound.operator for bound in requirement.specifier] == [">="]


def test_oldest_dependencies_are_the_declared_ones() -> None:
    """`constraints-min.txt` pins each runtime dependency at its declared lower bound, written as x.y.z."""
    lines = (CHECKOUT / "constraints-min.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert pins == {requirement.name: next(iter(requirement.specifier)).version for requirement in RUNTIME}
    for version in pins.values():
        assert len(Version(version).release) == 3
        assert version.count(".") == 2


def test_installed_dependencies_are_as_this_run_says() -> None:
    """The run on the oldest dependencies has exactly those; every other run has newer ones or the same."""
    is_minimum = os.environ.get("TOX_ENV_NAME") == "min"
    for requirement in RUNTIME:
        installed = Version(metadata.version(requirement.name))
        oldest = Version(next(iter(requirement.specifier)).version)
        assert installed == oldest if is_minimum else installed >= oldest
