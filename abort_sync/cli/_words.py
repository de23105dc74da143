"""Words for the reader of a terminal: an option in place of the library's name for a setting."""

from __future__ import annotations

import re

SEE_DOCTOR = "abort-sync doctor, with the same options, looks at each step"

_OPTIONS = {
    "router_url": "--router-url",
    "worker_urls": "--worker-url",
    "agent_server_url": "--agent-server-url",
    "keys.router": "--router-key-file",
    "keys.worker_admin": "--worker-admin-key-file",  # before the name that it begins with
    "keys.worker": "--worker-key-file",
    "keys.agent": "--agent-secret-file",
    "abort_all=True": "--abort-all",
    " (allow_empty=True takes that for ok)": "",
    " (rewrite_local_urls)": "",
}
_NAME = re.compile("|".join(map(re.escape, _OPTIONS)))


def as_options(text: str) -> str:
    """Say a sentence of the library's with the options of the command line."""
    return _NAME.sub(lambda name: _OPTIONS[name[0]], text)
