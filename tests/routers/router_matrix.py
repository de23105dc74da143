"""The matrix router × mode: what was tested, and its table for the terminal and for the README."""

from __future__ import annotations

from collections.abc import Sequence

from router_programs import MODES, Program

PASSED, FAILED, NOT_OFFERED = "passed", "failed", "not offered"


class Matrix:
    """The worst result of each pair's tests.

    Args:
        programs: The routers of this run.
    """

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = programs
        self._cells: dict[tuple[str, str], str] = {}

    def __bool__(self) -> bool:
        return bool(self._cells)

    def record(self, router: str, mode: str, passed: bool) -> None:
        """Take in one test's result."""
        if not passed or (router, mode) not in self._cells:
            self._cells[router, mode] = PASSED if passed else FAILED

    def _cell(self, program: Program, mode: str) -> str:
        if mode in program.not_offered:
            return NOT_OFFERED
        return self._cells.get((program.name, mode), "not run")

    def rows(self) -> list[list[str]]:
        """Return the table, its head first: a column for each router, since there are more modes."""
        head = ["mode", *(program.name for program in self._programs)]
        return [head, *([mode, *(self._cell(program, mode) for program in self._programs)] for mode in MODES)]

    def markdown(self) -> str:
        """Return the table as Markdown, its columns aligned."""
        rows = self.rows()
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join(lines) + "\n"


def parse_markdown(text: str) -> list[list[str]]:
    """Return the rows of the first table in `text` whose first column is `mode`; none if there is no such table."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.strip().startswith("|") and (rows or cells[0] == "mode"):
            if set(cells[0]) != {"-"}:
                rows.append(cells)
        elif rows:
            break
    return rows
