"""What is printed: aligned tables, safe words, and plain lines where no terminal is."""

from __future__ import annotations

import argparse
import io

import pytest

from abort_sync.cli._screen import Screen, clean, plain_table


def make_screen(**options: bool) -> Screen:
    """A screen as the options make it."""
    return Screen(argparse.Namespace(**{"json": False, "quiet": False, "no_color": False, "verbose": 0, **options}))


def test_columns_are_aligned_and_empty_ones_left_out() -> None:
    """Each column is as wide as its widest cell, and a column without a word is not printed."""
    text = plain_table(("A", "LONG", "NONE", "Z"), [("aaa", 1, None, "x"), ("b", 22222, "", "y")])
    assert text.splitlines() == ["A    LONG   Z", "aaa  1      x", "b    22222  y"]


def test_a_server_cannot_command_the_terminal() -> None:
    """Control characters and line breaks in a server's words become blanks."""
    assert clean("a\x1b[31mred\nb\x07\u202ec") == "a [31mred b  c"


def test_words_that_the_stream_cannot_say_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ASCII terminal gets escapes in place of an encoding error."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    make_screen().print("caf\u00e9")
    assert written.getvalue() == b"caf\\xe9\n"


def test_lines_are_plain_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal each piece of news is a line on standard error, and nothing else is."""
    with make_screen().live(("A", "B")) as show:
        show("key", ("one", "first"), True)
        show("key", ("two", "no news"), False)
        show("key", ("three", "last"), True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "one  first\nthree  last\n"


@pytest.mark.parametrize("option", ["json", "quiet"])
def test_nothing_is_shown_on_the_way_when_only_the_result_counts(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` and `--quiet` show no progress and no remarks."""
    screen = make_screen(**{option: True})
    with screen.live(("A",)) as show:
        show("key", ("one",), True)
    screen.say("a remark")
    printed = capsys.readouterr()
    assert printed.out + printed.err == ""
