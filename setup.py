"""Build step of setup.cfg: build in an empty directory outside the checkout.

setuptools copies into `build/lib` and packs whatever lies there, so a module that was renamed since the last
build would still be shipped.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile

from setuptools import setup
from setuptools.command.build import build


class CleanBuild(build):
    """`build` that neither finds nor leaves a `build/`."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = tempfile.mkdtemp(prefix="build-")
        atexit.register(shutil.rmtree, self.build_base, ignore_errors=True)


setup(cmdclass={"build": CleanBuild})
