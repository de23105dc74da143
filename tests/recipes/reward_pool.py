"""A reward function in a ProcessPoolExecutor that stops the judge's generation when it fails or takes too long."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import requests

from abort_sync import AbortClient, is_aborted, new_rid


def reward(client: AbortClient, judge_url: str, answer: str, timeout_s: float) -> float:
    """Score an answer; whatever ends this early also ends the judge's generation."""
    rid = new_rid("judge-")
    with client.abort_on_exit(rid):
        body = {"rid": rid, "text": f"Rate from 0 to 9: {answer}", "sampling_params": {"max_new_tokens": 50}}
        response = requests.post(f"{judge_url}/generate", json=body, timeout=timeout_s)
        response.raise_for_status()
        if is_aborted(response.json()):  # somebody else stopped it: half an answer is no score
            raise RuntimeError("the judge was aborted")
        return float(len(response.json()["text"]))


def main(router_url: str, judge_url: str, answers: list[str], timeout_s: float = 30.0) -> list[float]:
    """Score all answers in processes; the client is handed over as it is."""
    client = AbortClient(router_url)
    scores = []
    with ProcessPoolExecutor(max_workers=2) as pool:
        for future in [pool.submit(reward, client, judge_url, answer, timeout_s) for answer in answers]:
            try:
                scores.append(future.result())
            except (requests.RequestException, RuntimeError):
                scores.append(0.0)
    return scores


if __name__ == "__main__":
    from abort_sync.testing import LocalFleet

    with LocalFleet(workers=1) as fleet:
        print(main(fleet.router_url, fleet.worker_urls[0], ["a good answer", "a bad one"]))
