"""Read the code blocks of a Markdown page, the remark before each, and the commands in shell blocks."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Optional

SHELLS = ("bash", "console", "sh", "shell")
COMMAND = "abort-sync"

_REMARK = re.compile(r"<!--\s*(file|illustrative|output)\b:?\s*(.*?)\s*-->")
_SUBSTITUTION = re.compile(r"[$<]\(([^()]*)\)")
_BEFORE = ("exec", "nohup", "sudo", "time")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*).*$")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        language: The word after the fence, or "".
        code: The text between the fences, ending in a newline.
        line: Where the block begins in the page, from 1.
        remark: `file`, `illustrative` or `output`, where a comment of that name stands before the block.
        argument: What the comment says after the colon.
    """

    language: str
    code: str
    line: int
    remark: Optional[str] = None
    argument: str = ""


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found: list[Block] = []
    remark: Optional[re.Match[str]] = None
    lines = iter(enumerate(page.splitlines(), start=1))
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence:
            inside: list[str] = []
            for _, text in lines:
                if text.strip() == "```":
                    break
                inside.append(text[len(fence["indent"]) :] if text.startswith(fence["indent"]) else text)
            code = "".join(f"{text}\n" for text in inside)
            said = (remark[1], remark[2]) if remark else (None, "")
            found.append(Block(fence["language"], code, number, *said))
            remark = None
        elif line.strip():  # a remark holds for the block that follows it, blank lines aside
            remark = _REMARK.search(line)
    return found


def commands(shell: str) -> list[list[str]]:
    """Return the arguments of each `abort-sync` command in a shell block.

    Where any line begins with `$ `, the others are output. Assignments and words such as `exec` before the command,
    the directory it is called from, and redirections do not matter.
    """
    lines = re.sub(r"\\\n\s*", " ", shell).splitlines()
    typed = [line.strip()[2:] for line in lines if line.strip().startswith("$ ")] or lines
    found: list[list[str]] = []
    for line in typed:
        found += [command for inner in _SUBSTITUTION.findall(line) for command in commands(inner)]
        plain = re.sub(r"\d*[<>]+&?\s*\S+", "", _SUBSTITUTION.sub("SUBSTITUTED", line))
        lexer = shlex.shlex(plain, posix=True, punctuation_chars="();|&")
        lexer.whitespace_split = True
        words: list[str] = []
        for token in [*lexer, ";"]:
            if set(token) <= set("();|&"):
                found += _arguments(words)
                words = []
            elif words or not (re.match(r"\w+=", token) or token in _BEFORE):
                words.append(token)
    return found


def _arguments(words: list[str]) -> list[list[str]]:
    if words and words[0].rpartition("/")[2] == COMMAND:
        return [words[1:]]
    if words[1:3] == ["-m", "abort_sync"] and "python" in words[0]:
        return [words[3:]]
    return []


def loosely(text: str) -> str:
    """Return the text with what differs from run to run taken out: numbers, ids, widths of columns and rules."""
    text = re.sub(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}r?\b", "ID", text)
    text = re.sub(r"\d+(\.\d+)?", "N", text)
    text = re.sub(r"[-─═━]{3,}", "---", text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def matches(expected: str, actual: str) -> bool:
    """Say whether the output is, loosely, the expected one, where `...` stands for anything."""
    pattern = re.escape(loosely(expected)).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, loosely(actual), re.DOTALL) is not None
