"""A user's own test with `requests-mock`, which intercepts every call too."""

from __future__ import annotations

import requests_mock

from abort_sync import AbortClient, Keys, Status


def test_requests_mock_intercepts_the_listing_and_the_aborts() -> None:
    """The router is asked, each worker gets the rid with the worker's key, and nothing leaves this process."""
    with requests_mock.Mocker() as mock:
        mock.get("http://router:8000/workers", json={"workers": [{"url": "http://10.0.0.1:30000"}, {"url": "http://10.0.0.2:30000"}]})
        mock.post("http://10.0.0.1:30000/abort_request", status_code=200)
        mock.post("http://10.0.0.2:30000/abort_request", status_code=401)
        report = AbortClient("http://router:8000", keys=Keys(worker="k")).abort_request("rid-1")
        assert [one.status for one in report.outcomes] == [Status.ACCEPTED, Status.REFUSED]
        posts = [one for one in mock.request_history if one.method == "POST"]
        assert {one.headers["Authorization"] for one in posts} == {"Bearer k"}
        assert all(one.json() == {"rid": "rid-1", "abort_all": False} for one in posts)


def test_requests_mock_intercepts_a_flush() -> None:
    """A flush goes through the same door."""
    with requests_mock.Mocker() as mock:
        mock.post("http://agents:9000/flush", json={"session_server_instance_id": "s-1", "cancelled": 2})
        report = AbortClient(agent_server_url="http://agents:9000").flush("s-1")
        assert report.ok
        assert report.outcomes[0].cancelled == 2
