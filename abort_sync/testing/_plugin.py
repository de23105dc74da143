"""The pytest plugin: fixtures `local_fleet` and `abort_client`, loaded through the entry point `pytest11`.

It imports nothing of the fleet before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from abort_sync import AbortClient
    from abort_sync.testing import LocalFleet


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "local_fleet(workers=3, **options): how the fixture local_fleet makes its LocalFleet (abort_sync)")


@pytest.fixture
def local_fleet(request: pytest.FixtureRequest) -> Iterator[LocalFleet]:
    """A fresh `abort_sync.testing.LocalFleet` for one test.

    `@pytest.mark.local_fleet(workers=5, worker_key="sk-test")` gives its arguments.
    """
    from abort_sync.testing import LocalFleet

    marker = request.node.get_closest_marker("local_fleet")
    with LocalFleet(*(marker.args if marker else ()), **(marker.kwargs if marker else {})) as fleet:
        yield fleet


@pytest.fixture
def abort_client(local_fleet: LocalFleet) -> Iterator[AbortClient]:
    """An `abort_sync.AbortClient` that knows the fleet of `local_fleet` and its keys."""
    with local_fleet.client() as client:
        yield client
