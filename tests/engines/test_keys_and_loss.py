"""A third engine: with both of its keys set, and killed in the end."""

from __future__ import annotations

import pytest
import requests

from abort_sync import AbortClient, Keys, RoundEvent, Status, is_aborted

from . import traffic
from .conftest import PROGRAMS
from .processes import Engine

KEY, ADMIN_KEY = "sk-generate", "sk-admin"


@pytest.fixture(scope="module")
def third(directory):
    engine = Engine(directory, "--api-key", KEY, "--admin-api-key", ADMIN_KEY)
    PROGRAMS.append(engine)
    try:
        yield engine.wait()
    finally:
        engine.kill()


@pytest.mark.parametrize("keys", [Keys(), Keys(worker=KEY), Keys(worker=KEY, worker_admin="wrong")])
def test_without_the_admin_key_it_is_refused(third, keys):
    """Both keys set: an abort with none, with the key for generating, or with a wrong one is REFUSED, and nothing ends."""
    generation = traffic.Generation(third.url, "kept", key=KEY)
    traffic.wait_for(third.url, running=1, key=KEY)

    report = AbortClient(worker_urls=[third.url], keys=keys).abort_request("kept")

    assert [(one.status, one.http_status) for one in report.outcomes] == [(Status.REFUSED, 401)], str(report)
    assert generation.is_running
    traffic.abort_everything(third.url, KEY, ADMIN_KEY)
    generation.wait()


def test_with_both_keys_it_is_idle(third):
    """Both keys set: the abort carries the admin key, the load is read with the other, and the engine is IDLE."""
    generations = traffic.start(third.url, 4, key=KEY)
    traffic.wait_for(third.url, running=4, key=KEY)

    client = AbortClient(worker_urls=[third.url], keys=Keys(worker=KEY, worker_admin=ADMIN_KEY))
    report = client.abort_until_idle([one.rid for one in generations])

    assert [one.status for one in report.outcomes] == [Status.IDLE], str(report)
    assert all(is_aborted(one.wait()) for one in generations)


def test_an_engine_that_dies_in_the_middle_is_told_from_an_idle_one(third, engines):
    """Killed between two rounds: never IDLE, its requests fail, and the other engine is IDLE all the same."""
    living, dying = traffic.Generation(engines[0], "living"), traffic.Generation(third.url, "dying", key=KEY)
    traffic.wait_for(engines[0], running=1)
    traffic.wait_for(third.url, running=1, key=KEY)

    client = AbortClient(
        worker_urls=[engines[0], third.url],
        keys=Keys(worker=KEY, worker_admin=ADMIN_KEY),
        on_event=lambda event: third.kill() if isinstance(event, RoundEvent) else None,
    )
    # "dying" is left alone, so that its engine is still at work when it is killed.
    report = client.abort_until_idle(["living"], timeout_s=10.0)

    found = {one.target: one.status for one in report.outcomes}
    assert found[engines[0]] is Status.IDLE, str(report)
    assert found[third.url] in (Status.UNREACHABLE, Status.UNKNOWN), str(report)
    assert not report.ok
    assert is_aborted(living.wait())
    with pytest.raises(requests.ConnectionError):
        dying.wait()
