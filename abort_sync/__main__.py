"""`python -m abort_sync`: the command line without the console script."""

from __future__ import annotations

import sys

from abort_sync.cli import main

if __name__ == "__main__":
    sys.exit(main())
