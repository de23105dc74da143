"""How the documents are built: Sphinx, Markdown by MyST, the API from the docstrings."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "abort_sync"
author = "the abort_sync authors"
release = installed_version("abort_sync")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_show_copyright = False
html_title = f"abort_sync {release}"
nitpicky = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_use_rtype = False
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]
