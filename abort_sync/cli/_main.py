"""From the words on the command line to an exit status; every way to fail ends here as one plain line."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence

from abort_sync import AbortSyncError, ConfigurationError
from abort_sync.cli._parser import build_parser
from abort_sync.cli._screen import Screen, clean
from abort_sync.cli._status import INTERRUPTED, MISUSE, NOT_WELL, NOTHING_TRIED


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status, which `abort-sync --help` lists.

    Args:
        argv: The words after the program's name; None means those of this process.
    """
    try:
        options = build_parser().parse_args(argv)
    except SystemExit as end:  # argparse's way to end after --help, --version and misuse
        return end.code if isinstance(end.code, int) else MISUSE
    from abort_sync.cli._commands import COMMANDS  # late: --help and misuse need no HTTP library

    screen = Screen(options)
    try:
        with _logging(options.verbose):
            return COMMANDS[options.command](options, screen)
    except ConfigurationError as error:
        return _fail(screen, error, MISUSE)
    except AbortSyncError as error:  # the workers could not be learned
        return _fail(screen, error, NOTHING_TRIED)
    except KeyboardInterrupt:
        return _fail(screen, "interrupted; what was sent until then stays sent", INTERRUPTED)
    except BrokenPipeError:  # the reader, `head` for one, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_WELL


def _fail(screen: Screen, message: object, status: int) -> int:
    screen.warn(f"abort-sync: error: {clean(message)}")
    return status


@contextlib.contextmanager
def _logging(verbose: int | None) -> Iterator[None]:
    """Send the library's log to standard error under -v, and nowhere else: the report says all of it."""
    logger = logging.getLogger("abort_sync")
    handler = logging.StreamHandler() if verbose else logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    if verbose:
        logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
