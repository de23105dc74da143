"""The error tree: what is caught by what, and what crosses a process."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from abort_sync import Outcome, Report, Status, _errors
from abort_sync._errors import AbortIncompleteError, AbortSyncError, ConfigurationError, RouterError, RouterRefusedError

REPORT = Report("abort_request", (Outcome("http://h:1", "router", "r", Status.UNKNOWN, error="timed out"),))
ERRORS = [
    AbortSyncError("a"),
    ConfigurationError("timeout_s must be above 0"),
    RouterError("no router"),
    RouterRefusedError("wants another key"),
    AbortIncompleteError(REPORT),
]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickle(error: AbortSyncError, protocol: int) -> None:
    """An error that crosses a process pool arrives as what it was, report included."""
    copy = pickle.loads(pickle.dumps(error, protocol))
    assert (type(copy), copy.args, str(copy)) == (type(error), error.args, str(error))
    if isinstance(error, AbortIncompleteError):
        assert copy.report == REPORT


def test_every_error_has_its_pickle_test() -> None:
    """An error added to the tree is added to the list above."""
    in_room = {one for _, one in inspect.getmembers(_errors, inspect.isclass) if issubclass(one, AbortSyncError)}
    assert in_room == {type(error) for error in ERRORS}


def test_the_tree_is_as_drawn() -> None:
    """The drawing in the room's docstring shows each error below the one that catches it."""
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (_errors.__doc__ or "").splitlines():
        found = re.match(r"^    ([│├└─ ]*)(\w*Error)\b", line)
        if found:
            depth = len(found.group(1)) // 4
            above = [*above[:depth], found.group(2)]
            drawn[found.group(2)] = above[depth - 1] if depth else "Exception"
    assert drawn == {type(error).__name__: type(error).__mro__[1].__name__ for error in ERRORS}


def test_misuse_is_also_a_value_error() -> None:
    """Code that knows only Python's own errors catches misuse as ValueError."""
    assert issubclass(ConfigurationError, ValueError)


def test_an_incomplete_abort_says_what_is_missing() -> None:
    """The text of the error is the report's, so that a traceback tells what happened."""
    text = str(AbortIncompleteError(REPORT))
    assert "UNKNOWN" in text
    assert "http://h:1" in text
    assert "timed out" in text
