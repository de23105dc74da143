"""Completion scripts: made from the parser, and run where the shell is bash."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from abort_sync.cli import build_parser, main
from abort_sync.cli._completion import completion

COMMANDS = ("workers", "abort", "abort-all", "flush", "teardown", "watch", "doctor", "demo", "completion")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`completion SHELL` prints the script and ends well."""
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out.rstrip("\n") == completion(build_parser(), shell).rstrip("\n")


def complete(script: Path, *words: str) -> list[str]:
    """Ask bash what it offers for the last of the words."""
    call = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _abort_sync; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", call, str(script), *words], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The bash script in a file."""
    file = tmp_path / "completion.bash"
    file.write_text(completion(build_parser(), "bash"))
    return file


def test_bash_accepts_and_registers_the_script(script: Path) -> None:
    """bash finds no error in it, and knows whom to ask about `abort-sync`."""
    subprocess.run(["bash", "-n", str(script)], timeout=60, check=True)
    call = 'source "$0"; complete -p abort-sync'
    done = subprocess.run(["bash", "-c", call, str(script)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "complete -F _abort_sync abort-sync\n"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ab"], ["abort", "abort-all"]),
        (["abort", "--un"], ["--until-idle"]),
        (["flush", "--un"], ["--until-quiet"]),
        (["completion", ""], ["bash", "zsh", "fish", "-h", "--help"]),
        (["--rid", "abort", "tear"], ["teardown"]),  # the value of an option is no command
        (["--router-url", "http", ":", "//h", ":", "1", "abort", "--unt"], ["--until-idle"]),  # bash splits at colons
        (["abort", "--timeout", ""], []),
    ],
)
def test_bash_offers_what_fits(words: list[str], offered: list[str], script: Path) -> None:
    """Commands first, then the options of the command that was chosen, and nothing for a value."""
    assert complete(script, "abort-sync", *words) == offered


def test_bash_offers_files_for_a_key(script: Path) -> None:
    """An option that takes a file is completed with files."""
    assert complete(script, "abort-sync", "workers", "--router-key-file", str(script.parent / "comp")) == [str(script)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_shell_knows_every_option(command: str) -> None:
    """Each option of each command stands in each script, in the part for that command."""
    action = next(action for action in build_parser()._actions if action.dest == "command")
    assert tuple(action.choices or ()) == COMMANDS
    parser = dict(action.choices or {})[command]
    names = [name for each in parser._actions for name in each.option_strings]
    assert "--help" in names
    bash = re.search(rf'^ +{command}\) words="(.*)" ;;$', completion(build_parser(), "bash"), re.MULTILINE)
    assert bash is not None
    assert set(names) <= set(bash[1].split())
    zsh = re.search(rf"^ +{command}\) _arguments (.*) ;;$", completion(build_parser(), "zsh"), re.MULTILINE)
    assert zsh is not None
    assert [name for name in names if f"'*{name}[" not in zsh[1]] == []
    mark = f"-n '__fish_seen_subcommand_from {command}'"
    fish = "\n".join(line for line in completion(build_parser(), "fish").splitlines() if mark in line)
    flags = [f"-l {name[2:]} " if name.startswith("--") else f"-s {name[1:]} " for name in names]
    assert [flag for flag in flags if flag not in fish] == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_quotes_are_closed_on_every_line(shell: str) -> None:
    """No help text breaks out of its quotes: single quotes come in pairs and nothing is expanded."""
    for line in completion(build_parser(), shell).splitlines():
        assert line.count("'") % 2 == 0, line
        assert "`" not in line
        assert "$(" not in line
