"""The README says nothing that does not run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Optional

import pytest
from readme_blocks import COMMAND, SHELLS, Block, blocks, commands, loosely, matches

from abort_sync.cli import build_parser

TESTS = Path(__file__).resolve().parent
README = TESTS.parent / "README.md"
BLOCKS = blocks(README.read_text(encoding="utf-8"))
TYPED = [words for block in BLOCKS if block.language in SHELLS for words in commands(block.code)]


def of(*languages: str, remark: Optional[str] = None) -> list[Block]:
    """Return the blocks in these languages that stand behind this remark, or behind none."""
    return [block for block in BLOCKS if block.language in languages and block.remark == remark]


def line(block: Block) -> str:
    """Name a block by its place in the page."""
    return f"line {block.line}"


def run(block: Block, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a block, or the last of our commands in it, in an empty directory, with a minute to end."""
    argv = ["-c", block.code] if block.language == "python" else ["-m", "abort_sync", *commands(block.code)[-1]]
    return subprocess.run([sys.executable, *argv], cwd=directory, capture_output=True, text=True, timeout=60)


def before(block: Block) -> Block:
    """Return the block that an output belongs to."""
    return BLOCKS[BLOCKS.index(block) - 1]


@pytest.mark.parametrize("block", of("python"), ids=line)
def test_block_runs_as_a_script(block: Block, tmp_path: Path) -> None:
    """A block without a remark is a program of its own that ends well."""
    done = run(block, tmp_path)
    assert done.returncode == 0, done.stderr
    for output in BLOCKS:
        if output.remark == "output" and before(output) == block:
            assert matches(output.code, done.stdout), f"the program printed:\n{done.stdout}"


def test_illustrative_blocks_compile() -> None:
    """A block that cannot run by itself says why, and is valid Python."""
    for block in of("python", remark="illustrative"):
        assert block.argument, f"{line(block)}: write <!-- illustrative: why it cannot run -->"
        compile(block.code, f"README.md, {line(block)}", "exec")


def test_quoted_files_are_quoted_truly() -> None:
    """A recipe stands in the README word for word; the file itself is run where it lies."""
    for block in of("python", remark="file"):
        assert block.code == (TESTS / block.argument).read_text(encoding="utf-8"), line(block)


def test_commands_print_what_is_shown(tmp_path: Path) -> None:
    """The output shown below a command is what the command prints, numbers and ids aside."""
    for block in BLOCKS:
        if block.remark == "output" and before(block).language in SHELLS:
            done = run(before(block), tmp_path)
            assert done.returncode == 0, done.stderr
            assert matches(block.code, done.stdout), f"{line(block)}: the command printed:\n{done.stdout}"


@pytest.mark.parametrize("words", TYPED, ids=" ".join)
def test_command_is_understood(words: list[str]) -> None:
    """Each command shown is one that the command line takes: no option is invented."""
    try:
        build_parser().parse_args(words)
    except SystemExit as ended:
        assert ended.code in (0, None), f"{COMMAND} {' '.join(words)} is misuse"


def test_every_remark_is_obeyed() -> None:
    """A remark before a block that no test reads would be a check that nobody makes."""
    for block in BLOCKS:
        if block.remark in ("file", "illustrative"):
            assert block.language == "python", line(block)
        if block.remark == "output":
            assert before(block).language in ("python", *SHELLS), line(block)
            assert before(block).remark is None, line(block)


def test_the_readme_is_checked_at_all() -> None:
    """There is a program and a command in it, so the tests above hold something."""
    assert of("python")
    assert TYPED


PAGE = """\
Text <!-- not a remark -->.

<!-- file: recipes/loop.py -->
```python
import json
```

```python
print("a")

```
<!-- output -->

```text
a
```
<!-- illustrative: needs a fleet -->
Text in between takes the remark away.
1. A list:
   ```bash
   pip install abort-sync  # not one of ours
   ```
"""


def test_blocks_are_read_with_their_remarks() -> None:
    """A remark holds for the next block if only blank lines stand between; a block in a list loses its indent."""
    assert blocks(PAGE) == [
        Block("python", "import json\n", 4, "file", "recipes/loop.py"),
        Block("python", 'print("a")\n\n', 8),
        Block("text", "a\n", 14, "output", ""),
        Block("bash", "pip install abort-sync  # not one of ours\n", 20),
    ]


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("abort-sync demo  # on loopback", [["demo"]]),
        ("python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/abort-sync demo", [["demo"]]),
        ("pip install 'abort-sync[cli]'", []),
        ("$ abort-sync abort r1 \\\n    --until-idle\nabort-sync: this is output", [["abort", "r1", "--until-idle"]]),
        ('eval "$(abort-sync completion bash)"', [["completion", "bash"]]),
        ("source <(abort-sync completion zsh)", [["completion", "zsh"]]),
        ("ROUTER=http://a exec abort-sync workers --json 2>/dev/null | jq .", [["workers", "--json"]]),
        ("python -m abort_sync doctor; abort-sync 'abort' \"r 1\" > report.txt", [["doctor"], ["abort", "r 1"]]),
    ],
)
def test_commands_are_found(shell: str, expected: list[list[str]]) -> None:
    """Our commands are found wherever a shell would run them, and nowhere else."""
    assert commands(shell) == expected


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("ok in 0.12 s", "ok   in 3 s\n", True),
        ("abort_all: ok", "abort_all: NOT OK", False),
        ("a\n...\nz", "a\nb\nc\nz", True),
        ("a\nz", "a\nb\nz", False),
        ("rid 5f2c0aa31b7e4d57r", "rid 0123456789abcdefr", True),
        ("http://127.0.0.1:40123  ACCEPTED", "http://127.0.0.1:8  ACCEPTED", True),
    ],
)
def test_output_is_compared_loosely(expected: str, actual: str, same: bool) -> None:
    """Numbers, ids and widths may differ, words and lines may not; `...` stands for anything."""
    assert matches(expected, actual) is same
    assert loosely(loosely(actual)) == loosely(actual)
