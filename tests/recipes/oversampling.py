"""A legacy synchronous rollout loop: start more than needed, keep the first, stop the rest, and wait until it has stopped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed

import requests

from abort_sync import AbortClient, Report, is_aborted, new_rid


def generate(url: str, rid: str, max_new_tokens: int) -> dict:
    """Run one generation to its end, or to its abort."""
    body = {"rid": rid, "input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": max_new_tokens}}
    return requests.post(f"{url}/generate", json=body, timeout=60).json()


def rollout(client: AbortClient, worker_urls: list[str], wanted: int, lengths: list[int]) -> tuple[list[dict], Report]:
    """Return the first samples that are whole, and the report of stopping the others."""
    rids = [new_rid("rollout-") for _ in lengths]
    samples: list[dict] = []
    with ThreadPoolExecutor(len(rids)) as pool:
        jobs = {
            pool.submit(generate, worker_urls[i % len(worker_urls)], rid, length): rid for i, (rid, length) in enumerate(zip(rids, lengths))
        }
        for job in as_completed(jobs):
            if not is_aborted(job.result()):  # an aborted generation answers 200 with half a text
                samples.append(job.result())
            if len(samples) == wanted:
                break
        rest = [rid for job, rid in jobs.items() if not job.done()]
        report = client.abort_until_idle(rest, timeout_s=20.0)
    return samples, report


if __name__ == "__main__":
    from abort_sync.testing import LocalFleet

    with LocalFleet(workers=2) as fleet:
        samples, report = rollout(AbortClient(fleet.router_url), list(fleet.worker_urls), 2, [5, 5, 100_000, 100_000])
        print(len(samples), "samples")
        print(report)
        report.raise_if_incomplete()
