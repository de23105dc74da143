"""From the words on the command line to an exit status; every way to fail ends here as one plain line."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

from abort_sync import AbortSyncError, ConfigurationError
from abort_sync.cli._parser import Parser, build_parser, refuse_keys
from abort_sync.cli._screen import Screen, clean, write
from abort_sync.cli._status import INTERRUPTED, MISUSE, NOT_WELL, NOTHING_TRIED
from abort_sync.cli._words import SEE_DOCTOR, as_options


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status, which `abort-sync --help` lists.

    Args:
        argv: The words after the program's name; None means those of this process.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the shell, as by 2>&-
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 -- it stays for the process
    try:
        status = _run(sys.argv[1:] if argv is None else list(argv))
    except BrokenPipeError:  # the reader, `head` for one, has gone
        status = NOT_WELL
    except OSError as error:  # a full disk
        status = _fail(error, NOT_WELL)
    is_told = _flush(sys.stdout)
    _flush(sys.stderr)
    return status if is_told else status or NOT_WELL


def _run(words: list[str]) -> int:
    parser = build_parser()
    try:
        refuse_keys(parser, words)
        options, unknown = parser.parse_known_args(words)
        if unknown:
            Parser(prog=f"{parser.prog} {options.command}").error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as end:  # argparse's way to end after --help, --version and misuse
        return end.code if isinstance(end.code, int) else MISUSE
    from abort_sync.cli._commands import COMMANDS  # late: --help and misuse need no HTTP library

    try:
        with _logging(options.verbose):
            return COMMANDS[options.command](options, Screen(options))
    except ConfigurationError as error:
        return _fail(error, MISUSE)
    except AbortSyncError as error:  # the workers could not be learned
        return _fail(f"{error}; {SEE_DOCTOR}", NOTHING_TRIED)
    except KeyboardInterrupt as end:
        return _fail("; ".join(("interrupted", *map(str, end.args))), INTERRUPTED)


def _fail(message: object, status: int) -> int:
    write(sys.stderr, f"abort-sync: error: {clean(as_options(str(message)))}")
    return status


def _flush(stream: TextIO) -> bool:
    """Say whether all was written. What was not is dropped, else the interpreter would try again when it exits, and say so."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True


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
