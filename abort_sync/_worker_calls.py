"""What is asked of one worker: abort, and look at its load. This room knows nothing of routers or rounds.

Source: SGLang 0.5.23, measured: ``POST /abort_request`` answers 200 with an empty body, for known and unknown rids alike; older
servers answer 422 unless both ``rid`` and ``abort_all`` are in the body, so both always are. With both of its keys set, the
server takes an abort with the admin key only, and tells its load with the API key only.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Optional

from ._answer import Answer, NotJson, Order, read_json
from ._call import Call, Tries
from ._fanout import Step
from ._judge import judge
from ._loads import MAX_LOAD_BYTES, PATHS, Load, read_load
from ._report import Status
from ._workers import Worker

WORKER_KEY_HINT = "keys.worker (ABORT_SYNC_WORKER_KEY)"
ADMIN_KEY_HINT = "keys.worker_admin (ABORT_SYNC_WORKER_ADMIN_KEY), or keys.worker (ABORT_SYNC_WORKER_KEY) if the server has no admin key"


def abort_order(call: Call, worker: Worker, rid: Optional[str]) -> Order:
    """Return the order to abort one rid, or everything where the rid is None."""
    keys = call.settings.keys
    body = json.dumps({"rid": rid or "", "abort_all": rid is None}).encode()
    return Order("POST", f"{worker.url}/abort_request", keys.worker_admin or keys.worker, body)


def abort_tries(worker: Worker, rid: Optional[str]) -> Tries:
    """Return what will hold the tries of one abort at one worker."""
    skipped = None
    if worker.connection != "http":
        skipped = (
            Status.UNSUPPORTED,
            f"this worker is reached over {worker.connection}://, which has no abort over HTTP: "
            "start it with an HTTP port and give that in worker_urls, or have its router name an rl.control_url",
        )
    return Tries("abort", worker.shown, worker.via, rid, key_hint=ADMIN_KEY_HINT, skipped=skipped)


def abort_at(call: Call, worker: Worker, rids: Sequence[Optional[str]], tries: Sequence[Tries]) -> Generator[Step, None, None]:
    """Abort the rids at one worker in order, each with its attempts.

    A worker that proves unreachable, or does not answer in time, gets no more of them.
    """
    if worker.connection != "http":
        return
    for number, (rid, one) in enumerate(zip(rids, tries)):
        answer = yield from call.deliver(abort_order(call, worker, rid), one)
        through_gateway(call, worker, rid, one)
        if not answer.is_whole and number + 1 < len(rids):
            why = f"not tried: the abort before it at this worker failed ({answer.error})"
            for rest in tries[number + 1 :]:
                rest.skipped = (Status.NOT_SENT, call.scrub(why))
            return
        if number + 1 < len(rids):
            yield 0.0


def through_gateway(call: Call, worker: Worker, rid: Optional[str], tries: Tries) -> None:
    """Where the worker refused our key, ask its router's own route to abort on it: the router may know a key that works.

    Only then: going direct is bounded for each worker by itself, while the router's answer waits for a slow worker without end.

    Source: smg 1.13.0 with ``--enable-rl``, measured: 200 ``{"worker_id", "url", "status", "latency_ms", "body"}``, where ``status`` is
    the worker's; 404 without the flag, and from every other router.
    """
    if worker.gateway_url is None or not tries.statuses or tries.statuses[-1] is not Status.REFUSED:
        return
    order = abort_order(call, worker, rid)
    asked = Tries("abort", tries.target, tries.via, rid, judge=_judge_gateway)
    call.exchange(Order("POST", worker.gateway_url, call.settings.keys.router, order.body), asked, None)
    if asked.statuses and asked.statuses[-1] is not Status.UNSUPPORTED:
        tries.answers += asked.answers
        tries.statuses += asked.statuses
        tries.ended = asked.ended
        if asked.statuses[-1] is Status.ACCEPTED:
            tries.note = f"{tries.target} refused this client's key and was aborted through its router's own route"


def _judge_gateway(answer: Answer) -> Status:
    status = judge(answer)
    if status is not Status.ACCEPTED:
        return status
    try:
        content = read_json(answer.body)
    except NotJson:
        return Status.UNKNOWN
    code = content.get("status") if isinstance(content, dict) else None
    return judge(Answer(code)) if isinstance(code, int) else Status.UNKNOWN


def look_at(call: Call, worker: Worker, tries: Tries, path: int = 0) -> tuple[Optional[Load], int, Answer]:
    """Return a worker's load (None if it cannot be read), which of the paths told it, and the last answer.

    One attempt at a path; the next path is asked only where the server has no such route.

    Args:
        call: The call.
        worker: The worker.
        tries: Where the answers are kept.
        path: The number of the path to begin with.
    """
    while True:
        answer = call.exchange(Order("GET", worker.url + PATHS[path], call.settings.keys.worker, max_bytes=MAX_LOAD_BYTES), tries, None)
        is_missing = answer.is_whole and answer.status in (404, 405, 501)
        if not is_missing or path + 1 == len(PATHS):
            load = read_load(answer.body) if answer.is_whole and answer.status == 200 else None
            return load, path, answer
        path += 1


def look_tries(worker: Worker) -> Tries:
    """Return what will hold the tries of one look at a worker's load."""
    return Tries("load", worker.shown, worker.via, key_hint=WORKER_KEY_HINT)
