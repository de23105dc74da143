"""The agent abort hook of a driver's module: called from asyncio code through a thread, so that the loop goes on."""

from __future__ import annotations

import asyncio
from argparse import Namespace

import abort_sync


async def abort(args: Namespace) -> None:
    """Flush every session server's trials at the agent server (AGENT_SERVER_URL, HARBOR_ADMIN_SECRET)."""
    report = await asyncio.to_thread(abort_sync.abort, args)
    if not report.ok:
        print(report)


if __name__ == "__main__":
    import os

    from abort_sync.testing import LocalFleet

    with LocalFleet(workers=0, agent_secret="s3cret") as fleet:
        os.environ["AGENT_SERVER_URL"] = fleet.agent_url
        os.environ["HARBOR_ADMIN_SECRET"] = "s3cret"
        fleet.agent.start_runs("session-30001", 4)
        asyncio.run(abort(Namespace(session_server_instance_ids={30001: "session-30001", 30002: "session-30002"})))
        print("left:", sum(fleet.agent.running.values()))
