"""What an answer proves, and what all answers of one target prove together. This room sends nothing.

Every claim about a server rests on: SGLang 0.5.23, measured (an abort answers 200 with an empty body for known and unknown
rids alike; 400 or 422 for a bad body; 401 without the key), and the agent server's contract (200 with the same instance id).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Optional

from ._answer import Answer, NotJson, read_json, readable
from ._report import Status
from ._urls import mask


def judge(answer: Answer) -> Status:
    """Return what one answer to an abort proves."""
    if not answer.is_whole:
        return Status.UNKNOWN if answer.is_sent else Status.UNREACHABLE
    status = answer.status or 0
    if status == 200:
        return Status.UNKNOWN if answer.is_html else Status.ACCEPTED
    if status < 300:  # neither yes nor no
        return Status.UNKNOWN
    if status in (401, 403):
        return Status.REFUSED
    return Status.UNSUPPORTED if status in (404, 405, 501) else Status.REJECTED


def judge_flush(answer: Answer, instance_id: str) -> Status:
    """Return what one answer to a flush proves: 200 counts only with JSON about the same instance id."""
    status = judge(answer)
    if status is Status.ACCEPTED and cancelled(answer, instance_id) is None:
        return Status.UNKNOWN
    return status


def cancelled(answer: Answer, instance_id: str) -> Optional[int]:
    """Return how many trials the server says it cancelled, or None where the answer is not about this instance id."""
    try:
        content = read_json(answer.body)
    except NotJson:
        return None
    if not isinstance(content, dict) or content.get("session_server_instance_id") != instance_id:
        return None
    count = content.get("cancelled", 0)
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


def together(statuses: Sequence[Status]) -> Status:
    """Return the strongest claim that several attempts at one target allow.

    One accepted attempt is enough. Else one that may have been delivered leaves it unknown; else the last answer stands; and
    only where no attempt sent a byte was the target unreachable.
    """
    if not statuses:
        return Status.NOT_SENT
    for strongest in (Status.ACCEPTED, Status.UNKNOWN):
        if strongest in statuses:
            return strongest
    answered = [status for status in statuses if status is not Status.UNREACHABLE]
    return answered[-1] if answered else Status.UNREACHABLE


def explain(answer: Answer, status: Status, key_hint: str, scrub: Callable[[str], str] = str) -> Optional[str]:
    """Return why the status is no better, as a sentence for a person, or None.

    Args:
        answer: The answer.
        status: What it was judged to prove.
        key_hint: Which key the server would want, for example ``keys.worker (ABORT_SYNC_WORKER_KEY)``.
        scrub: Takes every key out of what the server said.
    """
    if status is Status.ACCEPTED:
        return None
    if not answer.is_whole:
        return answer.error
    code = answer.status or 0
    said = readable(scrub(answer.body[:65_536].decode("utf-8", "replace")), 200)
    said = f", the server said: {said}" if said and not answer.is_html else ""
    if status is Status.REFUSED:
        return f"HTTP {code}: the server wants another key, set {key_hint}{said}"
    if status is Status.UNSUPPORTED:
        return f"HTTP {code}: this server has no such route; is the URL that of an SGLang server or agent server?{said}"
    if 300 <= code < 400:
        where = readable(scrub(mask(answer.header("location") or "nowhere")), 200)
        return f"HTTP {code}: redirected to {where}, not followed; use the server's own URL"
    if answer.is_html:
        return f"HTTP {code} with a web page: something other than the server answered (a portal or a proxy?)"
    if code < 300:
        return f"HTTP {code}: no clear yes{said}" if code != 200 else f"HTTP 200, but not the answer to this request{said}"
    return f"HTTP {code}{said}"
