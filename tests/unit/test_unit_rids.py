"""Request ids: fresh ones, checked ones, those of a batch; and whether an answer was aborted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abort_sync import ConfigurationError, expand_batch_rids, is_aborted, new_rid
from abort_sync._rids import check_rid, check_rids, prefix_notes

STABLE = settings(derandomize=True, deadline=None, database=None, max_examples=50)
CAPTURES = Path(__file__).parents[1] / "data" / "engines"


@STABLE
@given(st.text("aZ09_-.:/é漢😀", max_size=20))
def test_no_fresh_rid_begins_another(prefix: str) -> None:
    """B2: fresh rids of one prefix have one length, so none is the beginning of another, and none looks like a batch's part."""
    made = [new_rid(prefix) for _ in range(20)]
    assert len(set(made)) == 20
    assert {len(rid) for rid in made} == {len(prefix) + 33}
    assert all(rid.startswith(prefix) and not re.search(r"_\d+$", rid) for rid in made)
    assert [check_rid(rid) for rid in made] == made


@pytest.mark.parametrize("prefix", [None, 7, "a" * 201, "a\nb", "a\x00", b"a"], ids=lambda one: repr(one)[:20])
def test_a_prefix_that_cannot_be_sent_is_refused(prefix: Any) -> None:
    """A prefix is a short printable string."""
    with pytest.raises(ConfigurationError, match="^prefix must be a string of at most 200 printable characters, not "):
        new_rid(prefix)


def test_a_batch_has_its_numbers() -> None:
    """B10: the rids of a batch of n are the rid with _0 to _<n-1>."""
    assert expand_batch_rids("grp", 3) == ["grp_0", "grp_1", "grp_2"]
    assert expand_batch_rids("grp", 1) == ["grp_0"]


@pytest.mark.parametrize("n", [0, -1, True, 2.0, None, "3"], ids=repr)
def test_a_batch_has_at_least_one(n: Any) -> None:
    """A batch of no prompts, or of no number of them, is refused."""
    with pytest.raises(ConfigurationError, match=r"^n must be a whole number from 1 \(how many prompts the batch has\), not"):
        expand_batch_rids("grp", n)


@pytest.mark.parametrize(
    ("rid", "what"),
    [
        ("", r"rid is empty: .* or call abort_all\(\)"),
        (" \n", "rid is empty"),
        (None, "must be the request id as a string, not None"),
        (7, "not an int"),
        (True, "not a bool"),
        (b"r", "not a bytes"),
        (["r"], "not a list"),
        ("\ud800", "lone surrogate"),
    ],
    ids=ascii,
)
def test_a_rid_that_may_mean_everything_is_refused(rid: Any, what: str) -> None:
    """B3: an empty, blank or missing rid once meant "everything" to an engine: it is refused, alone and in a list."""
    with pytest.raises(ConfigurationError, match=what):
        check_rid(rid)
    with pytest.raises(ConfigurationError, match=what):
        check_rids(["good", rid])
    with pytest.raises(ConfigurationError, match=what):
        expand_batch_rids(rid, 2)


@pytest.mark.parametrize("rids", ["rid-1", b"rid-1"])
def test_one_string_is_no_list(rids: Any) -> None:
    """A string in place of a list would abort its letters: it is refused, and the text says what to write."""
    with pytest.raises(ConfigurationError, match=r"not one string: write \[rid\], or call abort_request\(rid\)"):
        check_rids(rids)


@pytest.mark.parametrize("rids", [None, 7, object(), {"worker": "rid-1"}])
def test_rids_are_a_list(rids: Any) -> None:
    """What cannot be gone through is refused, and so is a mapping: are its keys the rids, or its values?"""
    with pytest.raises(ConfigurationError, match="^rids must be a list of request ids, not"):
        check_rids(rids)


def test_rids_come_once_each_in_order() -> None:
    """Any iterable will do; each rid comes once, in order, as it is."""
    assert check_rids(rid for rid in ["b", "a", "b", " a "]) == ["b", "a", " a "]
    assert check_rids({"x": 1}.keys()) == ["x"]
    assert check_rids(()) == []


def test_a_rid_that_begins_another_is_noted() -> None:
    """B2: a list in which one rid is the beginning of another gets a note that names both; others get none."""
    notes = prefix_notes(["run_10", "other", "run_1"])
    assert len(notes) == 1
    assert "'run_1' is the beginning of rid 'run_10'" in notes[0]
    assert prefix_notes(["a1", "b1", "c"]) == []
    assert prefix_notes([]) == []


@STABLE
@given(st.lists(st.text("ab", min_size=1, max_size=4), unique=True, max_size=8))
def test_every_beginning_is_noted(rids: list[str]) -> None:
    """There is a note for exactly those rids that begin another one of the list."""
    begins = [one for one in rids if any(other != one and other.startswith(one) for other in rids)]
    assert sorted(note.split("'")[1] for note in prefix_notes(rids)) == sorted(begins)


ABORT = {"type": "abort", "message": "Aborted"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"text": "a", "meta_info": {"finish_reason": ABORT}}, True),
        ({"text": "a", "meta_info": {"finish_reason": {"type": "length", "length": 8}}}, False),
        ({"text": "a", "meta_info": {"finish_reason": None}}, False),
        ({"meta_info": {"finish_reason": "abort"}}, True),
        ({"choices": [{"finish_reason": "stop"}, {"finish_reason": "abort"}]}, True),
        ({"choices": [{"finish_reason": "stop"}]}, False),
        ({"choices": [{"delta": {}, "finish_reason": None}]}, False),
        ([{"meta_info": {"finish_reason": {"type": "stop"}}}, {"meta_info": {"finish_reason": ABORT}}], True),
        ([{"meta_info": {"finish_reason": {"type": "stop"}}}], False),
        ({"finish_reason": ABORT}, True),
        ({"type": "abort"}, False),
        ({"text": "abort"}, False),
        ({"meta_info": "abort", "choices": "abort"}, False),
        ({"choices": None}, False),
        ({}, False),
        ([], False),
        (None, False),
        (7, False),
    ],
)
def test_an_aborted_answer_is_known(answer: Any, expected: bool) -> None:
    """The native and the OpenAI shapes, batches and stream events tell whether any part was aborted; other values are not aborted."""
    assert is_aborted(answer) is expected


@pytest.mark.parametrize("answer", ['{"meta_info": {}}', b"{}", object(), ["a"]], ids=["text", "bytes", "object", "list"])
def test_an_answer_that_is_not_decoded_is_no_answer(answer: Any) -> None:
    """A text or a response object would look like one that was not aborted: it is refused."""
    with pytest.raises(ConfigurationError, match=r"^is_aborted takes the decoded JSON of an answer, response.json\(\), not a"):
        is_aborted(answer)


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*/*-*.json")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_answers_of_real_engines(path: Path) -> None:
    """What real engines answered to an aborted generate is known as such, and nothing else is."""
    assert is_aborted(json.loads(path.read_text(encoding="utf-8"))) is ("aborted" in path.stem)
