"""Completion scripts for bash, zsh and fish, made from the parser so that they cannot fall behind it."""

from __future__ import annotations

import argparse

_BASH = """\
# bash completion for abort-sync; for example: eval "$(abort-sync completion bash)"
_abort_sync() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command= is_value= word words=
    COMPREPLY=()
    case $before in
        {files}) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
        {valued}) return ;;
    esac
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        if [[ $is_value ]]; then is_value=; continue; fi
        case $word in
            {valued}) is_value=1 ;;
            {commands}) command=$word; break ;;
        esac
    done
    case $command in
{cases}
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -F _abort_sync abort-sync
"""

_ZSH = """\
# zsh completion for abort-sync; for example: source <(abort-sync completion zsh)
_abort_sync() {{
    local curcontext=$curcontext state line
    local -a commands
    commands=(
{commands}
    )
    _arguments -C {top} '1:command:->command' '*::argument:->argument' && return
    case $state in
        command) _describe -t commands command commands ;;
        argument) case $words[1] in
{cases}
        esac ;;
    esac
}}
compdef _abort_sync abort-sync
"""


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Write the completion script of a parser for `bash`, `zsh` or `fish`."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](parser)


def _bash(parser: argparse.ArgumentParser) -> str:
    commands = _commands(parser)
    everywhere = [action for each in (parser, *commands.values()) for action in _options(each)]
    actions = {name: action for action in everywhere for name in action.option_strings}
    cases = [f'        "") words="{" ".join([*commands, *_names(parser)])}" ;;']
    cases += [f'        {name}) words="{" ".join([*_choices(each), *_names(each)])}" ;;' for name, each in commands.items()]
    return _BASH.format(
        commands="|".join(commands),
        valued="|".join(name for name, action in actions.items() if _takes_value(action)),
        files="|".join(name for name, action in actions.items() if _is_file(action)),
        cases="\n".join(cases),
    )


def _zsh(parser: argparse.ArgumentParser) -> str:
    def spec(name: str, action: argparse.Action) -> str:
        value = ":value:" + ("_files" if _is_file(action) else " ") if _takes_value(action) else ""
        return f"'*{name}[{_plain(action.help)}]{value}'"

    def specs(each: argparse.ArgumentParser) -> str:
        words = [spec(name, action) for action in _options(each) for name in action.option_strings]
        if _choices(each):
            words.append(f"'1:choice:({' '.join(_choices(each))})'")
        return " ".join(words)

    commands = _commands(parser)
    return _ZSH.format(
        commands="\n".join(f"        '{name}:{_plain(each.description)}'" for name, each in commands.items()),
        top=specs(parser),
        cases="\n".join(f"            {name}) _arguments {specs(each)} ;;" for name, each in commands.items()),
    )


def _fish(parser: argparse.ArgumentParser) -> str:
    commands = _commands(parser)
    none_yet = f"not __fish_seen_subcommand_from {' '.join(commands)}"
    lines = ["# fish completion for abort-sync; for example: abort-sync completion fish | source"]
    lines.append("complete -c abort-sync -f")
    for name, each in commands.items():
        lines.append(f"complete -c abort-sync -n '{none_yet}' -a {name} -d '{_plain(each.description)}'")
    parts = {none_yet: parser, **{f"__fish_seen_subcommand_from {name}": each for name, each in commands.items()}}
    for condition, each in parts.items():
        start = f"complete -c abort-sync -n '{condition}'"
        lines += [f"{start} -a {choice}" for choice in _choices(each)]
        for action in _options(each):
            names = " ".join(f"-l {name[2:]}" if name[1] == "-" else f"-s {name[1:]}" for name in action.option_strings)
            value = (" -r -F" if _is_file(action) else " -x") if _takes_value(action) else ""
            lines.append(f"{start} {names}{value} -d '{_plain(action.help)}'")
    return "\n".join(lines) + "\n"


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands and their parsers. argparse shows its actions under a private name only (3.9 to 3.14 alike)."""
    return next(dict(action.choices) for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings]


def _names(parser: argparse.ArgumentParser) -> list[str]:
    return [name for action in _options(parser) for name in action.option_strings]


def _choices(parser: argparse.ArgumentParser) -> list[str]:
    """The words that a command's own argument may be; none for the top, whose words are the commands."""
    return [
        str(choice)
        for action in parser._actions
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
        for choice in action.choices or ()
    ]


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def _is_file(action: argparse.Action) -> bool:
    return action.metavar == "FILE"


def _plain(text: str | None) -> str:
    """A help text without the marks that the shells' own completion syntax gives a meaning."""
    return "".join(letter for letter in text or "" if letter not in "[]:'\"\\")
