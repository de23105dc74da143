"""Build step of setup.cfg: start every wheel from an empty build directory.

setuptools copies into `build/lib` and packs whatever lies there, so a module that was renamed since the last
build would still be shipped.
"""

from __future__ import annotations

import shutil

from setuptools import setup
from setuptools.command.build import build


class CleanBuild(build):
    """`build` that forgets what the build before it left."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build": CleanBuild})
