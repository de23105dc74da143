"""Record what a real engine answers into ``data/engines``: ``python -m engines.record``, in ``tests``."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import requests

from . import install, traffic
from .processes import Engine

DATA = Path(__file__).resolve().parents[1] / "data" / "engines" / "sglang-0.5.23"
CHAT = {"model": "model", "messages": [{"role": "user", "content": "hello"}], "max_tokens": traffic.ENDLESS, "ignore_eos": True}


def main() -> None:
    DATA.mkdir(parents=True, exist_ok=True)
    install.install()
    with tempfile.TemporaryDirectory() as directory:
        engine = Engine(Path(directory), "--max-running-requests", "2")
        try:
            record(engine.wait().url)
        finally:
            engine.kill()


def record(url: str) -> None:
    loads(url, "idle")
    generations = traffic.start(url, 1)
    traffic.wait_for(url, running=1)
    loads(url, "running")
    generations += traffic.start(url, 3, "queued")
    traffic.wait_for(url, running=2, waiting=2)
    loads(url, "queued")
    traffic.abort_everything(url)
    answers = [generation.wait() for generation in generations]
    write("generate-aborted", answers[0])
    write("generate-aborted-in-queue", next(a for a in answers if "queue" in a["meta_info"]["finish_reason"]["message"]))

    # A long prompt is worked off in chunks, between which the load is looked at.
    prefill = traffic.Generation(url, "prefill", prompt=[5] * 40_000, tokens=4)
    while not traffic.load(url)["num_used_tokens"]:
        time.sleep(0.02)
    loads(url, "prefilling")
    traffic.abort_everything(url)
    prefill.wait()

    write("generate-finished", traffic.Generation(url, "short", tokens=2).wait())
    for name, options in {
        "stream-aborted": {"stream": True},
        "completions-aborted": {"path": "/v1/completions", "body": {**CHAT, "prompt": "hello"}},
        "chat-aborted": {"path": "/v1/chat/completions", "body": CHAT},
        "chat-stream-aborted": {"path": "/v1/chat/completions", "body": {**CHAT, "stream": True}, "stream": True},
    }.items():
        generation = traffic.Generation(url, name, **options)
        traffic.wait_for(url, running=1)
        traffic.abort_everything(url)
        write(name, generation.wait())


def loads(url: str, state: str) -> None:
    write(f"loads-{state}", requests.get(f"{url}/v1/loads?include=core", timeout=60).json())


def write(name: str, answer: Any) -> None:
    shorten(answer)
    (DATA / f"{name}.json").write_text(json.dumps(answer, indent=1) + "\n")


def shorten(answer: Any) -> None:
    """Cut the generated ids and texts, which are long and random."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name in ("output_ids", "text", "content") and value is not None:
                answer[name] = value[:8]
            else:
                shorten(value)
    elif isinstance(answer, list):
        for value in answer:
            shorten(value)


if __name__ == "__main__":
    main()
