"""A worker's load: each shape that engines answer in; what cannot be read is never zero."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abort_sync._loads import Load, read_load

STABLE = settings(derandomize=True, deadline=None, database=None, max_examples=80)
CAPTURES = Path(__file__).parents[1] / "data" / "engines" / "sglang-0.5.23"
VALUES = st.sampled_from([None, True, False, 0, 1, 3, -1, 0.0, 2.5, "0", [], {}, [0], {"num_reqs": 0}])
NAMES = st.sampled_from(["loads", "num_running_reqs", "num_waiting_reqs", "num_reqs", "timestamp", "x"])
RANKS = st.dictionaries(NAMES, VALUES, max_size=4)
JSON = VALUES | RANKS | st.lists(VALUES | RANKS, max_size=3)


def rank(running: Any = 0, waiting: Any = 0, **more: Any) -> dict[str, Any]:
    return {"num_running_reqs": running, "num_waiting_reqs": waiting, **more}


@pytest.mark.parametrize(
    ("content", "load"),
    [
        ({"loads": [rank()]}, Load(0, 0)),
        ({"loads": [rank(2, 3, dp_rank=0)]}, Load(2, 3)),
        ({"loads": [rank(1, 0), rank(2, 4)]}, Load(3, 4)),
        ({"loads": [rank(0, 0, timestamp=5.5), rank(1, 0, timestamp=6)]}, Load(1, 0, stamps=(5.5, 6.0))),
        ({"loads": [rank(0, 0, num_used_tokens=7, num_waiting_uncached_tokens=2)]}, Load(0, 0, tokens=9)),
        ({"loads": [rank(0, 0, num_used_tokens=None, timestamp="now")]}, Load(0, 0)),
        ([{"num_reqs": 5, "num_waiting_reqs": 2}], Load(3, 2)),
        ([{"num_reqs": 0, "num_waiting_reqs": 0}, {"num_reqs": 1, "num_waiting_reqs": 0}], Load(1, 0)),
        ([{"num_reqs": 1, "num_waiting_reqs": 2}], Load(0, 2)),
        ([rank(1, 1)], Load(1, 1)),
    ],
)
def test_each_shape_is_read(content: Any, load: Load) -> None:
    """B6: the shape of today, the older one, and several ranks together."""
    assert read_load(json.dumps(content).encode()) == load


@pytest.mark.parametrize(
    "content",
    [
        None, 7, "x", True, [], {}, {"loads": []}, {"loads": None}, {"loads": {}}, {"loads": 3}, {"loads": [None]}, {"loads": [3]}, [3],
        [[]], {"loads": [{}]}, {"loads": [{"num_running_reqs": 0}]}, {"loads": [{"num_waiting_reqs": 0}]}, [{"num_reqs": 0}],
        {"loads": [rank("0", 0)]}, {"loads": [rank(None, 0)]}, {"loads": [rank(0, None)]}, {"loads": [rank(False, 0)]},
        {"loads": [rank(0.0, 0)]}, {"loads": [rank(-1, 0)]}, {"loads": [rank(0, -1)]}, {"loads": [rank(), {}]}, {"load": 0}, {"error": "x"},
        [{"num_tokens": 0}], {"num_running_reqs": 0, "num_waiting_reqs": 0},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_read_is_not_zero(content: Any) -> None:
    """B6: a load in an unknown form, or with one rank in an unknown form, is unknown."""
    assert read_load(json.dumps(content).encode()) is None


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b"<html>0</html>", b"0", b"9" * 100], ids=lambda body: repr(body[:9]))
def test_what_is_no_json_is_not_zero(body: bytes) -> None:
    """A body that is cut, deep or no JSON is unknown, and no error."""
    assert read_load(body) is None


@STABLE
@given(JSON | st.builds(lambda ranks: {"loads": ranks}, st.lists(JSON, max_size=3)))
def test_a_load_is_read_only_where_every_rank_tells_its_counts(content: Any) -> None:
    """Any JSON is read without an error, and a load without work needs a count of zero from each rank."""
    load = read_load(json.dumps(content).encode())
    if load is None:
        return
    ranks = content["loads"] if isinstance(content, dict) else content
    assert ranks
    assert all({"num_running_reqs", "num_reqs"} & set(one) and "num_waiting_reqs" in one for one in ranks)
    if load.remaining == 0:
        assert all(value in (0, None) for one in ranks for name, value in one.items() if name == "num_waiting_reqs")


@pytest.mark.parametrize(
    ("load", "remaining"), [(Load(0, 0), 0), (Load(2, 3), 5), (Load(0, 0, tokens=4096), 1), (Load(1, 0, tokens=4096), 1), (Load(0, 1), 1)]
)
def test_tokens_alone_are_one_request(load: Load, remaining: int) -> None:
    """A request in its chunked prefill is in no count: tokens in use tell of at least one."""
    assert load.remaining == remaining


@pytest.mark.parametrize(("name", "least", "most"), [("idle", 0, 0), ("running", 1, 1), ("queued", 4, 4), ("prefilling", 1, 1)])
def test_what_a_real_engine_answered(name: str, least: int, most: int) -> None:
    """The answers of SGLang 0.5.23, byte for byte: idle, one running, two running and two queued, and one in its prefill."""
    load = read_load((CAPTURES / f"loads-{name}.json").read_bytes())
    assert load is not None
    assert least <= load.remaining <= most
    assert len(load.stamps) == 1
