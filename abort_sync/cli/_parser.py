"""The options and commands of the command line, as argparse knows them; what they do is in other rooms."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from abort_sync import __version__
from abort_sync.cli._screen import write

_MOST_SECONDS = 7 * 86_400.0
SHELLS = ("bash", "zsh", "fish")
# Each key: its field of Keys, its option, its variable.
KEYS = (
    ("router", "--router-key-file", "ABORT_SYNC_ROUTER_KEY"),
    ("worker", "--worker-key-file", "ABORT_SYNC_WORKER_KEY"),
    ("worker_admin", "--worker-admin-key-file", "ABORT_SYNC_WORKER_ADMIN_KEY"),
    ("agent", "--agent-secret-file", "HARBOR_ADMIN_SECRET"),
)

_EPILOG = """\
exit status:
  0    all well: every target accepted the call, or is idle where that was asked
  1    something was not: the report says which target, why, and what to do
  2    misuse: an option, an id or a setting is wrong; nothing was sent
  3    nothing could be tried: no worker or agent server is known, or the router did not tell
  130  ended by Ctrl-C

environment (an option wins over its variable):
  ABORT_SYNC_ROUTER_URL        --router-url
  AGENT_SERVER_URL             --agent-server-url (then SWE_AGENT_URL)
  ABORT_SYNC_ROUTER_KEY        --router-key-file
  ABORT_SYNC_WORKER_KEY        --worker-key-file
  ABORT_SYNC_WORKER_ADMIN_KEY  --worker-admin-key-file
  HARBOR_ADMIN_SECRET          --agent-secret-file
  NO_COLOR                     --no-color

A key never stands on the command line: it is read from a file, from its variable, or asked for (FILE is -).
"Accepted" is not "stopped": add --until-idle to abort, look, and abort again until the workers report no work.
"""

# Each command and its line of help, in the order of --help.
_COMMANDS = (
    ("workers", "list the workers, how they were learned, and what was dropped or rewritten"),
    ("abort", "abort requests by id on every worker"),
    ("abort-all", "abort EVERY request on every worker; asks first"),
    ("flush", "cancel the agent runs of instance ids at the agent server"),
    ("teardown", "flush the agent server, then sweep the workers until they are idle"),
    ("watch", "show the load of each worker, again and again"),
    ("doctor", "check a set-up without aborting anything, and say what to do"),
    ("demo", "start a fleet on loopback, break two of its workers, tear it down, print the report"),
    ("completion", "print a completion script for a shell"),
)


class Parser(argparse.ArgumentParser):
    """An argparse parser whose every misuse is one `abort-sync: error:` line that says where the help is."""

    def error(self, message: str) -> NoReturn:
        write(sys.stderr, f"abort-sync: error: {message}\n(see {self.prog} --help)")
        self.exit(2)


def refuse_keys(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """End as misuse, without showing a value, where an option that would take a key in clear is on the command line."""
    options = [option for _, option, _ in KEYS]
    for name in (word.partition("=")[0] for word in words):
        if re.fullmatch(r"--[\w-]*(key|secret|token|password)[\w-]*", name) and name not in options:
            meant = [f"{option} FILE or {variable}" for _, option, variable in KEYS if option == f"{name}-file"]
            instead = meant or [f"{option} FILE or {variable}" for _, option, variable in KEYS]
            parser.error(f"{name}: a key never stands on the command line; give {', '.join(instead)}")


def _word(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty: is the variable set that should give it?")
    return text


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0 and at most 7 days")
    return value


def _fleet_options(argument_default: Any) -> Parser:
    options = Parser(add_help=False, argument_default=argument_default)
    where = options.add_argument_group("where")
    where.add_argument("--router-url", action="append", metavar="URL", type=_word, help="a router, or a server itself; repeatable")
    where.add_argument("--worker-url", action="append", metavar="URL", type=_word, help="a worker known without a router; repeatable")
    where.add_argument("--agent-server-url", metavar="URL", type=_word, help="the agent server that has POST /flush")
    where.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="for the whole call; it is back by then (10; with --until-idle 30; a flush or teardown 120)",
    )
    keys = options.add_argument_group("keys", "each from a file; - asks for it, or reads a line of standard input")
    keys.add_argument("--router-key-file", metavar="FILE", type=_word, help="the key that the router wants")
    keys.add_argument("--worker-key-file", metavar="FILE", type=_word, help="the workers' API key")
    keys.add_argument("--worker-admin-key-file", metavar="FILE", type=_word, help="the workers' admin key, if an abort wants it")
    keys.add_argument("--agent-secret-file", metavar="FILE", type=_word, help="the agent server's secret")
    return options


def _output_options(argument_default: Any) -> Parser:
    options = Parser(add_help=False, argument_default=argument_default)
    output = options.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print the report as JSON, and nothing else")
    output.add_argument("--no-color", action="store_true", help="no colour on a terminal")
    output.add_argument("-v", "--verbose", action="count", help="log to standard error; -vv logs each attempt")
    output.add_argument("-q", "--quiet", action="store_true", help="print only what is not well")
    return options


def _until_idle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--until-idle", action="store_true", help="abort again until every worker reports no work")


def _yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask before every request on every worker is aborted")


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of `abort-sync`; the completion scripts are made from it too."""
    parser = Parser(
        prog="abort-sync",
        description="Abort generation on every SGLang worker and flush every agent run, and say truly what became of it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_fleet_options(None), _output_options(None)],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"abort-sync {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    # The same options may stand after the command. There they have no default, else argparse would overwrite with it
    # what stood before the command.
    fleet, output = _fleet_options(argparse.SUPPRESS), _output_options(argparse.SUPPRESS)
    parents: dict[str, list[Parser]] = {"demo": [output], "completion": []}
    made = {
        name: subparsers.add_parser(name, help=text, description=text, parents=parents.get(name, [fleet, output]), allow_abbrev=False)
        for name, text in _COMMANDS
    }
    made["abort"].add_argument("rids", nargs="+", metavar="RID", type=_word, help="the id that the engine knows")
    _until_idle(made["abort"])
    _until_idle(made["abort-all"])
    _yes(made["abort-all"])
    made["flush"].add_argument("ids", nargs="+", metavar="ID", type=_word, help="a session_server_instance_id")
    made["flush"].add_argument(
        "--until-quiet", action="store_true", help="flush again until nothing more is cancelled (queued runs start late)"
    )
    teardown = made["teardown"]
    several: dict[str, Any] = {"action": "append", "default": [], "type": _word}
    teardown.add_argument("--id", dest="ids", metavar="ID", help="an instance id to flush; repeatable", **several)
    which = teardown.add_mutually_exclusive_group()
    which.add_argument("--rid", dest="rids", metavar="RID", help="a request to abort; repeatable", **several)
    which.add_argument("--abort-all", action="store_true", help="abort every request on every worker instead")
    _yes(teardown)
    made["watch"].add_argument("--once", action="store_true", help="look once and end")
    made["watch"].add_argument("--interval", type=_seconds, default=1.0, metavar="SECONDS", help="between looks (1)")
    made["doctor"].add_argument(
        "--probe",
        action="store_true",
        help="also abort and flush a fresh id that nobody uses: it ends nothing, and proves the routes and their keys",
    )
    made["completion"].add_argument("shell", choices=SHELLS, help='for example: eval "$(abort-sync completion bash)"')
    return parser
