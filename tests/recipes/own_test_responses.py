"""A test of your own script with `responses`: only `Session.send` sends, so every call is intercepted."""

from __future__ import annotations

import json

import responses

from abort_sync import AbortClient


@responses.activate
def test_every_worker_behind_the_router_is_asked() -> None:
    """The router is asked for its workers, and each gets the rid."""
    workers = ["http://10.0.0.1:30000", "http://10.0.0.2:30000"]
    responses.get("http://router:8000/workers", json={"workers": [{"url": url} for url in workers]})
    for url in workers:
        responses.post(f"{url}/abort_request", status=200)

    report = AbortClient("http://router:8000").abort_request("rid-1")

    assert report.ok
    sent = [call.request for call in responses.calls if call.request.method == "POST"]
    assert sorted(request.url for request in sent) == [f"{url}/abort_request" for url in workers]
    assert all(json.loads(request.body) == {"rid": "rid-1", "abort_all": False} for request in sent)
