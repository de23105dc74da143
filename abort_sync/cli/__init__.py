"""The command line: `abort-sync COMMAND`, the same as `python -m abort_sync COMMAND`.

It stands on the public face alone and runs in the core install; the extra `cli` (rich) adds colour, drawn tables and
the live view on a terminal, and nothing else. Nothing here is imported by the library.
"""

from __future__ import annotations

from abort_sync.cli._main import main
from abort_sync.cli._parser import build_parser

__all__ = ["build_parser", "main"]
