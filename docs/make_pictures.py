"""Make the two pictures of the README: `python docs/make_pictures.py` writes docs/images/cli.svg and flow.svg.

Needs the package with its extra `cli`. The command line's picture is a real run of `abort-sync demo` on a pseudo
terminal, with the ports replaced by round numbers so that two runs make the same picture but for the times.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.text import Text

IMAGES = Path(__file__).parent / "images"
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
SANS = "system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif"


def run_on_terminal(*words: str, columns: int) -> str:
    """Run the command line with its output on a pseudo terminal and return what it wrote."""
    master, slave = pty.openpty()
    size = {"COLUMNS": str(columns), "LINES": "50", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with subprocess.Popen(
        [sys.executable, "-m", "abort_sync", *words],
        stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.DEVNULL, env={**os.environ, **size},
    ) as process:  # fmt: skip
        os.close(slave)
        written = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not piece:
                break
            written += piece
    os.close(master)
    if process.returncode:
        raise SystemExit(f"abort-sync {' '.join(words)} ended with {process.returncode}:\n{written.decode()}")
    return written.decode().replace("\r\n", "\n")


def with_round_ports(text: str) -> str:
    """Replace the ports, which chance gave, by round numbers of the same length: 30000, 30001, ..."""
    ports = list(dict.fromkeys(re.findall(r"127\.0\.0\.1:(\d{5})", text)))
    for number, port in enumerate(ports):
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{30000 + number}")
    return text


def command_line() -> str:
    """Draw the demo at work."""
    columns = 140
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text("$ abort-sync demo", style="bold"))
    console.print(Text.from_ansi(with_round_ports(run_on_terminal("demo", columns=columns)).rstrip("\n")))
    svg = console.export_svg(title="abort-sync", font_aspect_ratio=0.6)
    # rich names a web font; a picture in a README must fetch nothing.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"terminal-\d+-", "cli-", svg)
    return svg.replace("Fira Code, monospace", FONT)


CLAIMS = (
    "one deadline over all",
    "one task a worker",
    "retries that do no harm",
    "nothing outlives a call",
    "an outcome a target",
)
BLUE, GREEN, RED, GREY = "#2563eb", "#15803d", "#b91c1c", "#475569"


def box(x: int, y: int, width: int, height: int, title: str, lines: tuple[str, ...], color: str) -> str:
    """Draw a rounded box with a title and a few words."""
    size = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    parts = [f'<rect {size} rx="8" fill="#ffffff" stroke="{color}" stroke-width="2"/>']
    parts.append(f'<text x="{x + 16}" y="{y + 28}" class="title" fill="{color}">{escape(title)}</text>')
    for number, line in enumerate(lines):
        parts.append(f'<text x="{x + 16}" y="{y + 50 + 19 * number}" class="small">{escape(line)}</text>')
    return "\n".join(parts)


def arrow(points: str, color: str, label: str, x: int, y: int) -> str:
    """Draw a line with a head at its end, and its label from (x, y)."""
    head = {BLUE: "blue", GREEN: "green", RED: "red", GREY: "grey"}[color]
    line = f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2" marker-end="url(#{head})"/>'
    return line + (f'\n<text x="{x}" y="{y}" class="label" fill="{color}">{escape(label)}</text>' if label else "")


def flow() -> str:
    """Draw who calls whom: the driver, abort_sync, the router, the workers, the agent server."""
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" orient="auto">'
        f'<path d="M0 0L10 5L0 10z" fill="{color}"/></marker>'
        for name, color in (("blue", BLUE), ("green", GREEN), ("red", RED), ("grey", GREY))
    )
    parts = [
        box(20, 160, 190, 92, "your driver", ("synchronous rollout,", "reward process, atexit"), GREY),
        box(330, 128, 210, 156, "abort_sync", CLAIMS, BLUE),
        box(790, 20, 220, 86, "router", ("knows the workers; often", "has no abort route"), GREY),
        box(790, 136, 220, 44, "worker 1", (), RED),
        box(790, 190, 220, 44, "worker 2", (), RED),
        box(790, 244, 220, 44, "worker N", (), RED),
        box(790, 318, 220, 86, "agent server", ("cancels the trials of", "one instance id"), GREEN),
        arrow("210,190 328,190", GREY, "teardown()", 226, 182),
        arrow("330,226 212,226", GREY, "Report", 244, 244),
        arrow("540,152 580,152 580,62 788,62", BLUE, "1  GET /workers", 592, 54),
        arrow("540,202 610,202 610,158 788,158", RED, "2  POST /abort_request", 620, 150),
        arrow("540,212 788,212", RED, "", 0, 0),
        arrow("540,222 610,222 610,266 788,266", RED, "", 0, 0),
        arrow("540,262 580,262 580,360 788,360", GREEN, "2  POST /flush", 592, 352),
    ]
    style = (
        f".title{{font:600 16px {SANS}}}.small{{font:14px {SANS};fill:#334155}}"
        f".label{{font:13px {FONT}}}.note{{font:14px {SANS};fill:#334155}}"
    )
    note = "3  until idle: look at each worker's load, abort again what is still there, until no work or the deadline"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1030 460" width="1030" height="460" role="img" '
        'aria-label="Data flow: the driver calls abort_sync, which asks the router for the workers, flushes the agent '
        'server and aborts at every worker, and returns a report">\n'
        f'<defs><style>{style}</style>{heads}</defs>\n<rect width="1030" height="460" fill="#f8fafc"/>\n'
        + "\n".join(parts)
        + f'\n<text x="20" y="440" class="note">{escape(note)}</text>\n</svg>\n'
    )


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / "flow.svg").write_text(flow(), encoding="utf-8")
    (IMAGES / "cli.svg").write_text(command_line(), encoding="utf-8")
