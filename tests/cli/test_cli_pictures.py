"""The pictures of the documents: made by their script, and free of anything that a reader's browser would fetch."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = sorted((DOCS / "images").glob("*.svg"))


def test_both_pictures_are_there() -> None:
    """One of the command line, one of the data flow."""
    assert {"cli.svg", "flow.svg"} <= {picture.name for picture in PICTURES}


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_stands_alone(picture: Path) -> None:
    """A picture names no font or page to fetch and no path of the machine that made it."""
    text = picture.read_text(encoding="utf-8")
    addresses = set(re.findall(r"https?://[^\s\"';)<&]+", text)) - {"http://www.w3.org/2000/svg"}
    assert [address for address in addresses if not address.startswith("http://127.0.0.1:3000")] == []
    assert not re.search(r"@import|@font-face|url\((?!#)|xlink|/home/|/root/|/tmp/", text)


def test_the_flow_is_what_the_script_draws() -> None:
    """Whoever changes the picture changes the script."""
    spec = importlib.util.spec_from_file_location("make_pictures", DOCS / "make_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.flow() == (DOCS / "images" / "flow.svg").read_text(encoding="utf-8")
