"""Ray reward actors that abort from several actors at once; one client is handed to all of them."""

from __future__ import annotations

import ray

from abort_sync import AbortClient, Report


@ray.remote
class RewardActor:
    """An actor that owns some requests and stops them when told to."""

    def __init__(self, client: AbortClient, rids: list[str]) -> None:
        self._client, self._rids = client, rids

    def stop(self) -> Report:
        """Stop this actor's requests on every worker."""
        return self._client.abort_requests(self._rids, timeout_s=10.0)


def stop_all(actors: list) -> list[Report]:
    """Have all actors stop their requests at the same time."""
    return ray.get([actor.stop.remote() for actor in actors])


if __name__ == "__main__":
    import os

    from abort_sync import new_rid
    from abort_sync.testing import LocalFleet

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # a test sends nothing elsewhere
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
    with LocalFleet(workers=3) as fleet:
        rids = [[new_rid() for _ in range(4)] for _ in range(2)]
        for rid in rids[0] + rids[1]:
            fleet.workers[0].start_generation(rid)
        client = AbortClient(fleet.router_url)
        reports = stop_all([RewardActor.remote(client, some) for some in rids])
        print([report.ok for report in reports], "still running:", len(fleet.workers[0].running))
    ray.shutdown()
