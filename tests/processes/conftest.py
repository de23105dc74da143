"""Two workers that are well, for the children to abort at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from abort_sync.testing import LocalFleet


@pytest.fixture
def fleet() -> Iterator[LocalFleet]:
    with LocalFleet(workers=2, agent_server=False) as one:
        yield one
