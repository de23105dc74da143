"""What an aborted generate answers, read by `is_aborted`."""

from __future__ import annotations

import pytest

from abort_sync import is_aborted

from . import traffic
from .processes import SLOTS
from .traffic import Generation

OPENAI = {"model": "model", "max_tokens": traffic.ENDLESS, "ignore_eos": True}
CHAT = {**OPENAI, "messages": [{"role": "user", "content": "hello"}]}
SHAPES = {
    "native": {},
    "native stream": {"stream": True},
    "completions": {"path": "/v1/completions", "body": {**OPENAI, "prompt": "hello"}},
    "chat": {"path": "/v1/chat/completions", "body": CHAT},
    "chat stream": {"path": "/v1/chat/completions", "body": {**CHAT, "stream": True}, "stream": True},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_aborted_answer_is_recognised(client, engines, shape):
    """Each shape in which SGLang answers says that it was aborted; a stream says so in its last event."""
    options = SHAPES[shape]
    rid = f"rid-{shape}"
    body = {"body": {**options["body"], "rid": rid}} if "body" in options else {}
    generation = Generation(engines[0], rid, **{**options, **body})
    traffic.wait_for(engines[0], running=1)

    assert client.abort_request(rid).ok

    assert is_aborted(generation.wait())


def test_an_answer_from_the_waiting_queue_is_recognised(client, engines):
    """A request that was aborted before it got a slot answers without text, and says so too."""
    running = traffic.start(engines[0], SLOTS)
    traffic.wait_for(engines[0], running=SLOTS)
    queued = traffic.start(engines[0], 4, "queued")
    traffic.wait_for(engines[0], running=SLOTS, waiting=4)

    assert client.abort_requests([one.rid for one in queued[:3]]).ok

    answers = [one.wait() for one in queued[:3]]
    assert all(is_aborted(answer) for answer in answers)
    assert {answer["meta_info"]["finish_reason"]["message"] for answer in answers} == {"Abort in waiting queue"}
    traffic.wait_for(engines[0], running=SLOTS, waiting=1)
    assert all(one.is_running for one in [*running, queued[3]])


@pytest.mark.parametrize("stream", [False, True])
def test_a_finished_answer_is_not(engines, stream):
    """A generate that came to its own end is not taken for an aborted one."""
    assert not is_aborted(Generation(engines[0], "short", tokens=4, stream=stream).wait())
