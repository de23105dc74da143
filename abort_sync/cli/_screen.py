"""What the reader sees: aligned tables, plain lines, and with rich on a terminal colour and a live view.

Results go to standard output, progress and trouble to standard error, so that `--json | jq` and `| tee` stay clean.
rich is imported when a terminal is there to draw on, never at import; without it the same words are printed plain.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

_COLORS = {
    "ACCEPTED": "green", "IDLE": "green", "ok": "green",
    "BUSY": "yellow", "UNKNOWN": "yellow", "NOT_SENT": "yellow", "note": "yellow",
    "REFUSED": "red", "REJECTED": "red", "UNREACHABLE": "red", "UNSUPPORTED": "red", "problem": "red",
}  # fmt: skip


Row = Sequence[object]
Draw = Callable[[Sequence[Row]], None]
Show = Callable[[str, Row, bool], None]


def clean(text: object) -> str:
    """Make a server's words safe to print: one line, and no control character that a terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


def plain_table(headers: Sequence[str], rows: Sequence[Row]) -> str:
    """Lay out rows under headers in columns two spaces apart; a column that is empty in every row is left out."""
    texts = [[clean("" if cell is None else cell) for cell in row] for row in rows]
    used = [index for index in range(len(headers)) if any(row[index] for row in texts)]
    lines = [[headers[index] for index in used]] + [[row[index] for index in used] for row in texts]
    widths = [max(len(line[column]) for line in lines) for column in range(len(used))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


class Screen:
    """Where the commands print; made from the output options."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.is_json = bool(options.json)
        self.is_quiet = bool(options.quiet)
        self._is_logging = bool(options.verbose)
        self._no_color = bool(options.no_color or os.environ.get("NO_COLOR"))

    def print(self, text: str = "") -> None:
        write(sys.stdout, text)

    def say(self, text: str = "") -> None:
        """Print what a person wants to know beside the result; not under `--quiet` and `--json`."""
        if not (self.is_quiet or self.is_json):
            self.print(text)

    def warn(self, text: str) -> None:
        write(sys.stderr, text)

    def ask(self, question: str) -> str:
        """Ask on standard error and return the line that was typed, empty at its end."""
        print(question, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip()

    def print_json(self, value: Any) -> None:
        self.print(json.dumps(value, indent=2))

    def table(self, headers: Sequence[str], rows: Sequence[Row]) -> None:
        """Print a table: drawn by rich on a terminal, else aligned plain text."""
        console = self._console(sys.stdout)
        if console is None:
            self.print(plain_table(headers, rows))
        else:
            console.print(_rich_table(headers, rows))

    @contextlib.contextmanager
    def board(self, headers: Sequence[str], stream: TextIO, *, is_kept: bool) -> Iterator[Draw | None]:
        """Give a `draw(rows)` that replaces the table on a terminal, or None where only plain lines can be printed.

        Args:
            headers: Of the columns.
            stream: Where to draw.
            is_kept: Whether the last table stays when the block ends.
        """
        # Log lines on the same stream would be drawn over.
        is_plain = self.is_json or (self._is_logging and stream is sys.stderr)
        console = None if is_plain else self._console(stream)
        if console is None:
            yield None
            return
        from rich.live import Live

        with Live(console=console, refresh_per_second=10, transient=not is_kept) as live:
            yield lambda rows: live.update(_rich_table(headers, rows))

    @contextlib.contextmanager
    def live(self, headers: Sequence[str]) -> Iterator[Show]:
        """Give a `show(key, row, is_news)` that keeps one line for each key up to date.

        On a terminal with rich the lines change in place and are gone at the end (the report follows). Else each row that
        is news is a plain line. Under `--quiet` and `--json` nothing is shown.
        """
        if self.is_quiet or self.is_json:
            yield lambda key, row, is_news: None
            return
        rows: dict[str, Row] = {}
        with self.board(headers, sys.stderr, is_kept=False) as draw:

            def show(key: str, row: Row, is_news: bool) -> None:
                rows[key] = row
                if draw:
                    draw(list(rows.values()))
                elif is_news:
                    self.warn("  ".join(clean(cell) for cell in row).rstrip())

            yield show

    def _console(self, stream: TextIO) -> Any:
        """A rich console, or None where plain text is right: no terminal, a dumb one, or no rich."""
        if not stream.isatty() or os.environ.get("TERM") == "dumb":
            return None
        try:
            from rich.console import Console
        except ImportError:
            return None
        return Console(file=stream, no_color=self._no_color, highlight=False)


def write(stream: TextIO, text: str) -> None:
    """Write a line in the stream's own encoding; what standard error does not take is lost, and stops no work.

    Raises:
        OSError: Standard output does not take it.
    """
    encoding = stream.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
    except OSError:
        if stream is not sys.stderr:
            raise


def _rich_table(headers: Sequence[str], rows: Sequence[Row]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    used = [index for index in range(len(headers)) if any(row[index] not in (None, "") for row in rows)]
    for index in used:
        table.add_column(headers[index], overflow="fold")
    for row in rows:
        texts = [clean("" if row[index] is None else row[index]) for index in used]
        # Text, not markup: an address such as [::1] is no style.
        table.add_row(*(Text(text, style=_COLORS.get(text.split(" ")[0], "")) for text in texts))
    return table
