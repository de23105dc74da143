"""A whole script, from start to exit, that aborts at every worker: `ours` or `asyncio`, and a router's URL."""

import sys

if sys.argv[1] == "ours":
    from abort_sync import AbortClient

    assert AbortClient(sys.argv[2]).abort_request("benchmark-rid").ok
else:
    import asyncio

    import aiohttp

    async def main(router: str) -> None:
        """Do as the asyncio original does."""
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{router}/workers") as response:
                urls = [one["url"] for one in (await response.json())["workers"]]

            async def abort(url: str) -> None:
                async with session.post(f"{url}/abort_request", json={"rid": "benchmark-rid", "abort_all": False}) as response:
                    response.raise_for_status()

            await asyncio.gather(*(abort(url) for url in urls))

    asyncio.run(main(sys.argv[2]))
