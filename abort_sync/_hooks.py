"""The drop-in functions, for scripts that must change one line. This room only reads arguments and calls a client."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Callable, Optional

from ._args import instance_ids_from_args, kwargs_from_args, kwargs_from_env
from ._call import reports_to_the_end
from ._client import AbortClient
from ._config import check_flag, check_logger
from ._errors import ConfigurationError
from ._operations import NO_FLUSH, NO_SWEEP
from ._report import Report, log_failures
from ._rids import check_rids

_log = logging.getLogger("abort_sync")
_ABORT_TIMEOUT_S = 5.0


@reports_to_the_end
def abort(args: object) -> Report:
    """Flush every instance id in ``args``: the blocking twin of the asyncio agent hook.

    Reads ``session_server_instance_ids`` (a map or any iterable), ``session_server_instance_id`` and
    ``session_server_instances`` (objects with ``instance_id``); each id is flushed once. The agent server is ``AGENT_SERVER_URL``,
    else ``SWE_AGENT_URL``; its secret is ``HARBOR_ADMIN_SECRET``; all read now.

    Args:
        args: The driver's arguments: an object with attributes, or a mapping.

    Returns:
        A report, whatever the network does; no URL and no ids are its ``error``, logged at INFO.

    Raises:
        ConfigurationError: ``args`` or an id in it is of a wrong type.
    """
    ids = instance_ids_from_args(args)
    if not ids:
        return _nothing("abort", "args name no instance id (session_server_instance_ids, session_server_instance_id): nothing to flush")

    def flush() -> Report:
        kwargs = kwargs_from_env()
        if "agent_server_url" not in kwargs:
            raise ConfigurationError("no agent server URL: set AGENT_SERVER_URL")
        return AbortClient(agent_server_url=kwargs["agent_server_url"], keys=kwargs["keys"]).flush(ids)

    return _renamed("abort", flush)


@reports_to_the_end
def abort_sglang_request(sglang_url: Optional[str], rid: Optional[str], logger: Optional[logging.Logger] = None) -> Report:
    """Abort one request on every worker behind a router, within 5 s: the blocking twin of the asyncio router abort.

    Args:
        sglang_url: The router's URL, or an SGLang server's own.
        rid: The request's id.
        logger: Also told, as warnings, of the targets that are not ok (the first 20 of many) and how many more there are.

    Returns:
        A report, whatever the network does; no URL and no rid are its ``error``, logged at INFO.

    Raises:
        ConfigurationError: An argument is of a wrong type.
    """
    for name, value in (("sglang_url", sglang_url), ("rid", rid)):
        if value is not None and not isinstance(value, str):
            raise ConfigurationError(f"{name} must be a string, not {type(value).__name__}: abort_sglang_request(url, rid)")
    check_logger(logger)
    if not sglang_url or not sglang_url.strip():
        return _nothing("abort_sglang_request", "no router URL was given: nothing to abort at", logger)
    if not rid or not rid.strip():
        return _nothing("abort_sglang_request", "no rid was given: nothing to abort", logger)

    def send() -> Report:
        return AbortClient(sglang_url, keys=kwargs_from_env()["keys"], timeout_s=_ABORT_TIMEOUT_S).abort_request(rid)

    report = _renamed("abort_sglang_request", send)
    if logger is not None and logger is not _log:
        log_failures(report, logger)
    return report


@reports_to_the_end
def teardown(args: object, *, rids: Iterable[str] = (), abort_all: bool = False) -> Report:
    """Flush every instance id in ``args``, and abort on the workers if told to by name, in one report.

    Args:
        args: The driver's arguments, as for ``AbortClient.from_args`` and ``abort``.
        rids: What to abort on the workers, until they are idle.
        abort_all: Abort everything on them instead.

    Returns:
        A report, whatever the network does; no URL and nothing to do are its ``error``, logged at INFO.

    Raises:
        ConfigurationError: ``args``, an id or a rid is of a wrong type.
    """
    ids, wanted = instance_ids_from_args(args), check_rids(rids)
    is_sweep = check_flag("abort_all", abort_all) or bool(wanted)
    if not ids and not is_sweep:
        return _nothing("teardown", "args name no instance id, and neither rids nor abort_all=True was given: nothing to tear down")
    given = kwargs_from_args(args)

    def tear_down() -> Report:
        kwargs: dict[str, Any] = {**kwargs_from_env(), **given}
        can_flush = bool(ids) and "agent_server_url" in kwargs
        can_abort = is_sweep and ("router_url" in kwargs or "worker_urls" in kwargs)
        missing = []
        if ids and not can_flush:
            missing.append("no agent server URL: set AGENT_SERVER_URL")
        if is_sweep and not can_abort:
            missing.append("no router URL: set args.sglang_router_ip and sglang_router_port, or ABORT_SYNC_ROUTER_URL")
        if not can_flush and not can_abort:
            raise ConfigurationError("; ".join(missing))
        report = AbortClient(**kwargs).teardown(
            ids if can_flush else (), rids=wanted if can_abort and not abort_all else (), abort_all=can_abort and abort_all
        )
        if missing:  # what is left out is an error here, not a wish
            notes = tuple(one for one in report.notes if one not in (NO_FLUSH, NO_SWEEP))
            report = replace(report, notes=notes).with_error("; ".join(missing))
        return report

    return _renamed("teardown", tear_down)


def _renamed(operation: str, run: Callable[[], Report]) -> Report:
    try:
        return run().renamed(operation)
    except ConfigurationError as why:  # types were checked before: what is left is a URL or a key that cannot be used
        return _nothing(operation, str(why))


def _nothing(operation: str, why: str, logger: Optional[logging.Logger] = None) -> Report:
    (logger or _log).info("%s: %s", operation, why)
    return Report(operation, error=why)
