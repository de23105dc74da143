"""The commands that only look: the workers, and their loads."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from time import sleep, strftime

from abort_sync import AbortClient, Attempt, AttemptEvent, RouterError
from abort_sync.cli._screen import Screen
from abort_sync.cli._settings import limit, make_client
from abort_sync.cli._status import NOT_WELL, NOTHING_TRIED, WELL
from abort_sync.cli._words import SEE_DOCTOR, as_options

_NO_WORKER = "no worker is listed yet: have they registered at the router? That takes a while after its start"


class Looks(dict[str, Attempt]):
    """An `on_event` that keeps the last attempt to read each worker's load, by the worker's URL as it is shown."""

    def __call__(self, event: object) -> None:
        if isinstance(event, AttemptEvent) and event.kind == "load":
            self[event.target] = event.attempt


def workers(options: argparse.Namespace, screen: Screen) -> int:
    """Print the workers, what each router turned out to be, and the notes; 1 if one router failed or there is no worker.

    Raises:
        RouterError: No worker could be learned.
    """
    found = make_client(options).discover(**limit(options))
    has_failed = any(router.error for router in found.routers)
    if not found.workers and not screen.is_json:
        found.raise_if_unknown()
    if screen.is_json:
        listed = [{**asdict(worker), "url": worker.shown} for worker in found.workers]
        routers = [asdict(router) for router in found.routers]
        screen.print_json({"workers": listed, "routers": routers, "notes": list(found.notes)})
        return _status(bool(found.workers), has_failed)
    if found.workers:
        rows = [
            (one.shown, one.via, one.kind, {True: "yes", False: "no", None: "?"}[one.is_healthy], one.connection) for one in found.workers
        ]
        screen.table(("WORKER", "VIA", "KIND", "HEALTHY", "BY"), rows)
    else:
        screen.warn(_NO_WORKER)
    for router in found.routers:
        is_server = router.dialect == "server"
        what = "is an SGLang server itself" if is_server else f"speaks GET {router.dialect}, lists {router.workers}"
        if router.error:
            screen.warn(f"{as_options(router.error)}; {SEE_DOCTOR}")
        else:
            screen.say(f"{router.url} {what}")
    for note in found.notes:
        screen.say(f"note: {as_options(note)}")
    return _status(bool(found.workers), has_failed)


def _status(has_workers: bool, has_failed: bool) -> int:
    """Say a look as an exit status: 3 where no worker could be learned, 1 where some could not or there is none."""
    if has_failed and not has_workers:
        return NOTHING_TRIED
    return WELL if has_workers and not has_failed else NOT_WELL


def watch(options: argparse.Namespace, screen: Screen) -> int:
    """Show each worker's load until Ctrl-C; with `--once` look once, and 1 if one cannot be read or there is no worker."""
    looks = Looks()
    client = make_client(options, looks)
    headers = ("TIME", "WORKER", "RUNNING", "WAITING", "TOKENS", "WHY")
    with screen.board(headers, sys.stdout, is_kept=True) as draw:
        while True:
            error = None
            try:
                rows = _rows(client, options, looks) or [_no_row(_NO_WORKER)]
            except RouterError as problem:
                error = problem
                if options.once and not screen.is_json:
                    raise
                rows = [_no_row(f"{error}; {SEE_DOCTOR}")]
            if screen.is_json:
                names = [header.lower() for header in headers]
                screen.print(json.dumps([dict(zip(names, row)) for row in rows]))
            elif draw:
                draw(rows)
            else:
                screen.table(headers, rows)
            if options.once:
                return NOTHING_TRIED if error else NOT_WELL if any(row[-1] for row in rows) else WELL
            sleep(options.interval)


def _no_row(why: str) -> tuple[object, ...]:
    return (strftime("%H:%M:%S"), "?", "?", "?", "?", why)


def _rows(client: AbortClient, options: argparse.Namespace, looks: Looks) -> list[tuple[object, ...]]:
    looks.clear()
    rows: list[tuple[object, ...]] = []
    for url, load in client.loads(**limit(options)).items():
        if load is None:
            look = looks.get(url)
            why = (look.error or f"HTTP {look.http_status}, no load in it") if look else "was not asked"
            rows.append((strftime("%H:%M:%S"), url, "?", "?", "?", why))
        else:
            rows.append((strftime("%H:%M:%S"), url, load.running, load.waiting, load.tokens, None))
    return rows
