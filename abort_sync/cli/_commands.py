"""The commands that abort and flush; each takes the options and the screen and returns an exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from abort_sync import AbortClient, ConfigurationError, Report
from abort_sync.cli._completion import completion
from abort_sync.cli._demo import demo
from abort_sync.cli._doctor import doctor
from abort_sync.cli._looks import watch, workers
from abort_sync.cli._parser import build_parser
from abort_sync.cli._reports import progress, show_report
from abort_sync.cli._screen import Screen, clean
from abort_sync.cli._settings import limit, make_client
from abort_sync.cli._status import NOT_WELL


def _abort(options: argparse.Namespace, screen: Screen) -> int:
    def call(client: AbortClient) -> Report:
        if options.until_idle:
            return client.abort_until_idle(options.rids, **limit(options))
        return client.abort_requests(options.rids, **limit(options))

    return _run(options, screen, call)


def _abort_all(options: argparse.Namespace, screen: Screen) -> int:
    def call(client: AbortClient) -> Report:
        if options.until_idle:
            return client.abort_all_until_idle(**limit(options))
        return client.abort_all(**limit(options))

    return _run(options, screen, call) if _may_abort_all(options, screen) else NOT_WELL


def _flush(options: argparse.Namespace, screen: Screen) -> int:
    def call(client: AbortClient) -> Report:
        return client.flush(options.ids, until_quiet=options.until_quiet, **limit(options))

    return _run(options, screen, call, workers=False, agent_server=True)


def _teardown(options: argparse.Namespace, screen: Screen) -> int:
    if not (options.ids or options.rids or options.abort_all):
        raise ConfigurationError("teardown has nothing to do: give --id ID to flush, --rid RID or --abort-all to abort")
    if options.abort_all and not _may_abort_all(options, screen):
        return NOT_WELL

    def call(client: AbortClient) -> Report:
        return client.teardown(options.ids, rids=options.rids, abort_all=options.abort_all, **limit(options))

    return _run(options, screen, call, workers=bool(options.rids or options.abort_all), agent_server=bool(options.ids))


def _completion(options: argparse.Namespace, screen: Screen) -> int:
    screen.print(completion(build_parser(), options.shell))
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace, Screen], int]] = {
    "workers": workers,
    "abort": _abort,
    "abort-all": _abort_all,
    "flush": _flush,
    "teardown": _teardown,
    "watch": watch,
    "doctor": doctor,
    "demo": demo,
    "completion": _completion,
}


def _run(options: argparse.Namespace, screen: Screen, call: Callable[[AbortClient], Report], **needs: bool) -> int:
    make_client(options, None, **needs)  # before the live view, which would draw over the question for a key
    with progress(screen) as on_event:
        try:
            report = call(make_client(options, on_event, **needs))
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what was sent until then stays sent") from None
    return show_report(screen, report)


def _may_abort_all(options: argparse.Namespace, screen: Screen) -> bool:
    """Ask the person at the terminal, unless `--yes` answered already.

    Raises:
        ConfigurationError: There is nobody to ask.
    """
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError("this would end every request on every worker: add --yes, or run it on a terminal")
    found = make_client(options).workers()
    for worker in found:
        screen.warn(f"  {clean(worker.shown)}")
    question = f"End EVERY request, also those of others, on these {len(found)} workers? [y/N] "
    if screen.ask(question).lower() in ("y", "yes"):
        return True
    screen.warn("abort-sync: nothing was sent")
    return False
