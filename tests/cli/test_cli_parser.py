"""Words on the command line: options, keys, misuse and help."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from abort_sync import Keys
from abort_sync.cli import build_parser, main
from abort_sync.cli._settings import make_client, read_keys

URL = "http://127.0.0.1:9"


class Terminal(io.StringIO):
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_help_lists_every_exit_status_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` ends well and documents the exit status and the environment."""
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for wanted in ("exit status:", "  0 ", "  1 ", "  2 ", "  3 ", "  130 ", "ABORT_SYNC_ROUTER_URL", "NO_COLOR"):
        assert wanted in text


def test_version_is_the_packages_own(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` names the version that is installed."""
    import abort_sync

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"abort-sync {abort_sync.__version__}\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "COMMAND"),
        (["abort"], "RID"),
        (["abort", "r", "--bogus"], "--bogus"),
        (["abort", "r", "--timeout", "0"], "'0' is no number of seconds above 0"),
        (["abort", "r", "--timeout", "nan"], "'nan' is no number of seconds above 0"),
        (["abort", "r", "--timeout", "soon"], "'soon' is no number of seconds above 0"),
        (["watch", "--interval", "-1"], "'-1' is no number"),
        (["watch", "--interval", "1e12"], "'1e12' is no number"),
        (["completion", "tcsh"], "tcsh"),
        (["teardown", "--router-url", URL], "--id ID to flush, --rid RID or --abort-all"),
        (["abort", "", "--router-url", URL], "argument RID: it is empty"),
        (["abort", "r", " ", "--router-url", URL], "argument RID: it is empty"),
        (["flush", "", "a", "--agent-server-url", URL], "argument ID: it is empty"),
        (["teardown", "--id", "", "--rid", "r", "--agent-server-url", URL, "--router-url", URL], "argument --id: it is empty"),
        (["teardown", "--rid", "", "--router-url", URL], "argument --rid: it is empty"),
        (["teardown", "--rid", "r", "--abort-all", "--yes", "--router-url", URL], "--abort-all: not allowed with argument --rid"),
        (["abort", "r", "--router-url", ""], "argument --router-url: it is empty"),
        (["workers", "--router-url", URL, "--worker-key-file="], "argument --worker-key-file: it is empty"),
        (["abort", "r", "--bogus"], "(see abort-sync abort --help)"),
        (["abort", "r", "--router-url", "ftp://h"], "ftp"),
        (["abort", "r", "--router-url", "http://a b"], "--router-url 'http://a b'"),
        (["abort", "r", "--router-url", URL, "--router-key-file", "/nowhere/key"], "--router-key-file: No such"),
        (["abort-all", "--router-url", URL], "add --yes"),
        (["teardown", "--abort-all", "--router-url", URL], "add --yes"),
    ],
)
def test_misuse_is_one_line_and_status_2(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Misuse says what is wrong on standard error, prints nothing else, and ends with 2."""
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("abort-sync: error: ")
    assert says in printed.err
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("words", [["workers"], ["abort", "r"], ["abort-all", "--yes"], ["watch", "--once"], ["doctor"]])
def test_without_any_url_option_and_variable_are_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A command that has nowhere to go says which option and which variable would tell it."""
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "--router-url" in error
    assert "ABORT_SYNC_ROUTER_URL" in error


def test_flush_without_agent_server_names_option_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    """A flush that has nowhere to go says which option and which variable would tell it."""
    assert main(["flush", "i"]) == 2
    error = capsys.readouterr().err
    assert "--agent-server-url" in error
    assert "AGENT_SERVER_URL" in error


def test_options_may_stand_before_and_after_the_command() -> None:
    """What stands after the command adds to what stood before it; given twice, the later place wins."""
    parse = build_parser().parse_args
    options = parse(["--json", "--timeout", "3", "--router-url", "a", "abort", "r", "--timeout", "4", "-q"])
    assert (options.json, options.quiet, options.timeout, options.router_url) == (True, True, 4.0, ["a"])
    options = parse(["workers", "--worker-url", "a", "--worker-url", "b"])
    assert (options.worker_url, options.router_url, options.timeout) == (["a", "b"], None, None)


def test_no_option_takes_a_key_in_clear() -> None:
    """Every option about a key or a secret takes the name of a file."""
    about_keys = [action for action in build_parser()._actions if "key" in action.dest or "secret" in action.dest]
    assert len(about_keys) == 4
    assert all(action.metavar == "FILE" for action in about_keys)


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("--router-key", "--router-key-file FILE or ABORT_SYNC_ROUTER_KEY"),
        ("--worker-key", "--worker-key-file FILE or ABORT_SYNC_WORKER_KEY"),
        ("--worker-admin-key", "--worker-admin-key-file FILE or ABORT_SYNC_WORKER_ADMIN_KEY"),
        ("--agent-secret", "--agent-secret-file FILE or HARBOR_ADMIN_SECRET"),
        ("--api-key", "--worker-key-file FILE"),
        ("--worker-key-fil", "--worker-key-file FILE"),
    ],
)
def test_a_key_on_the_command_line_is_not_shown(option: str, instead: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever a key stands in clear, it is misuse that names the option to use, and the key is not repeated."""
    words = ["abort", "r", "--router-url", URL]
    for said in ([*words, option, "sesame"], [*words, f"{option}=sesame"], [option, "sesame", *words]):
        assert main(said) == 2
        printed = capsys.readouterr()
        assert instead in printed.err
        assert "sesame" not in printed.out + printed.err


def test_a_key_in_place_of_its_file_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """What is no file may be the key itself."""
    assert main(["workers", "--router-url", URL, "--worker-key-file", "sesame"]) == 2
    printed = capsys.readouterr()
    assert "--worker-key-file: No such file" in printed.err
    assert "sesame" not in printed.out + printed.err


def test_help_tells_defaults_and_what_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    """`teardown --help` says that its ids may be repeated, and what `--timeout` is where it is not given."""
    assert main(["teardown", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "an instance id to flush; repeatable" in text
    assert "a request to abort; repeatable" in text
    assert "(10; with --until-idle 30; a flush or teardown 120)" in text


def test_a_variable_without_a_url_is_none_given(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of no URLs in the variable is answered with the option."""
    monkeypatch.setenv("ABORT_SYNC_ROUTER_URL", " , ")
    assert main(["abort", "r"]) == 2
    assert "which workers? Give --router-url URL" in capsys.readouterr().err


def test_keys_come_from_files_and_the_rest_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key file wins over its variable, and the keys without an option stay those of the environment."""
    file = tmp_path / "key"
    file.write_text("from-file\n")
    monkeypatch.setenv("ABORT_SYNC_ROUTER_KEY", "router-variable")
    monkeypatch.setenv("ABORT_SYNC_WORKER_KEY", "worker-variable")
    monkeypatch.setenv("HARBOR_ADMIN_SECRET", "agent-variable")
    options = build_parser().parse_args(["workers", "--worker-key-file", str(file)])
    assert read_keys(options) == Keys(router="router-variable", worker="from-file", agent="agent-variable")


def test_a_dash_reads_a_line_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can be asked, `-` takes one line a key from standard input."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("first\nsecond\n"))
    options = build_parser().parse_args(["workers", "--router-key-file", "-", "--agent-secret-file", "-"])
    assert read_keys(options) == Keys(router="first", agent="second")


def test_a_dash_asks_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal `-` asks without showing what is typed."""
    asked = []

    def getpass(prompt: str) -> str:
        asked.append(prompt)
        return "typed"

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", getpass)
    options = build_parser().parse_args(["workers", "--worker-admin-key-file", "-"])
    assert read_keys(options) == Keys(worker_admin="typed")
    assert asked == ["worker admin key: "]


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe\x00"])
def test_a_file_without_a_key_is_misuse(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty or unreadable key file is named, before anything is sent."""
    file = tmp_path / "key"
    file.write_bytes(content)
    assert main(["workers", "--router-url", URL, "--router-key-file", str(file)]) == 2
    assert f"--router-key-file {file}" in capsys.readouterr().err


def test_a_bad_key_is_never_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that cannot be sent is refused without being printed."""
    file = tmp_path / "key"
    file.write_text("sesame\nopen\n")
    assert main(["workers", "--router-url", URL, "--router-key-file", str(file)]) == 2
    printed = capsys.readouterr()
    assert "sesame" not in printed.out + printed.err


def test_no_answer_to_the_question_for_a_key_is_misuse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-D in place of a key sends nothing."""

    def getpass(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", getpass)
    assert main(["workers", "--router-url", URL, "--router-key-file", "-"]) == 2
    assert "--router-key-file -: no key was given" in capsys.readouterr().err


def test_an_option_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """URLs come from the environment unless an option gives them."""
    monkeypatch.setenv("ABORT_SYNC_ROUTER_URL", "http://127.0.0.1:1")
    client = make_client(build_parser().parse_args(["workers"]))
    assert "127.0.0.1:1" in repr(client)
    client = make_client(build_parser().parse_args(["workers", "--router-url", "http://127.0.0.1:2"]))
    assert "127.0.0.1:2" in repr(client)
    assert "127.0.0.1:1" not in repr(client)
