"""The pytest plugin, run in pytest runs of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory for a run with no other plugin than ours, named by hand."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "abort_sync.testing._plugin")
    return pytester


def test_fixtures_give_a_fleet_and_its_client(run: pytest.Pytester) -> None:
    """A user's test gets a fleet of three workers and a client that knows it, by asking for the fixtures."""
    run.makepyfile(
        """
        def test_abort(local_fleet, abort_client):
            local_fleet.workers[2].start_generation("rid-1")
            report = abort_client.abort_request("rid-1")
            assert report.ok, str(report)
            assert len(report.outcomes) == 3
            assert not local_fleet.workers[2].running
        """
    )
    run.runpytest_subprocess("--strict-markers", "-W", "error").assert_outcomes(passed=1)


def test_a_marker_gives_the_options(run: pytest.Pytester) -> None:
    """The nearest marker says how the fleet is made, and the client gets the keys that go with it."""
    run.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.local_fleet(workers=1)

        def test_of_the_module(local_fleet):
            assert len(local_fleet.workers) == 1

        @pytest.mark.local_fleet(5, worker_key="w", agent_server=False)
        def test_of_its_own(local_fleet, abort_client):
            assert len(local_fleet.workers) == 5
            assert local_fleet.agent_url is None
            assert abort_client.abort_request("rid-1").ok
            assert local_fleet.workers[4].requests[0].headers["authorization"] == "Bearer w"
        """
    )
    run.runpytest_subprocess("--strict-markers", "-W", "error").assert_outcomes(passed=2)


def test_each_test_has_its_own_fleet_and_it_ends(run: pytest.Pytester) -> None:
    """A fleet lives for one test: the next gets a fresh one, and no thread is left, even after a failure."""
    run.makepyfile(
        """
        import threading

        seen = []

        def test_one(local_fleet):
            seen.append(local_fleet)
            assert False

        def test_two(local_fleet):
            assert seen[0] is not local_fleet
            assert not any(worker.is_alive for worker in seen[0].workers)

        def test_three():
            for thread in threading.enumerate():
                if thread.name.startswith("local-fleet"):
                    thread.join(30.0)
                    assert not thread.is_alive()
        """
    )
    run.runpytest_inprocess().assert_outcomes(passed=2, failed=1)


def test_a_wrong_option_is_an_error_of_the_test(run: pytest.Pytester) -> None:
    """An option that the fleet does not know is named."""
    run.makepyfile(
        """
        import pytest

        @pytest.mark.local_fleet(wrokers=5)
        def test_typo(local_fleet):
            pass
        """
    )
    result = run.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*TypeError*wrokers*"])


def test_the_fixtures_and_the_marker_are_documented(run: pytest.Pytester) -> None:
    """`pytest --fixtures` and `--markers` tell what there is."""
    run.runpytest_inprocess("--fixtures").stdout.fnmatch_lines(
        ["local_fleet*", "*A fresh `abort_sync.testing.LocalFleet`*", "abort_client*", "*An `abort_sync.AbortClient`*"]
    )
    run.runpytest_inprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.local_fleet(workers=3, *"])


def test_a_run_that_does_not_use_the_fixtures_loads_no_fleet(run: pytest.Pytester) -> None:
    """Loading the plugin does not load the fleet."""
    run.makepyfile(
        """
        import sys

        def test_nothing_loaded():
            loaded = sorted(name for name in sys.modules if name.startswith("abort_sync.testing"))
            assert loaded == ["abort_sync.testing", "abort_sync.testing._plugin"]
        """
    )
    run.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_installed_package_brings_the_plugin(pytester: pytest.Pytester) -> None:
    """With the package installed the fixtures are there without a word."""
    pytester.makepyfile("def test_fleet(local_fleet): assert len(local_fleet.workers) == 3")
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_the_public_names_are_sorted_and_there() -> None:
    """Each name in `__all__` can be imported, is listed by `dir`, and an unknown one is an AttributeError."""
    import abort_sync.testing as testing

    assert testing.__all__ == sorted(testing.__all__)
    assert {getattr(testing, name).__name__ for name in testing.__all__} == set(testing.__all__)
    assert set(testing.__all__) <= set(dir(testing))
    with pytest.raises(AttributeError, match="module 'abort_sync.testing' has no attribute 'Nothing'"):
        _ = testing.Nothing
