"""Cases that use the package for the first time when the interpreter ends: so this script must not import anything of it before."""

from __future__ import annotations

import atexit
import json
import sys
import threading
import time

import abort_sync

case, urls = sys.argv[1], sys.argv[2:]


def abort() -> None:
    print(json.dumps({"ok": abort_sync.AbortClient(worker_urls=urls, timeout_s=20.0).abort_request("last").ok}), flush=True)


def abort_after_the_main_thread() -> None:
    threading.main_thread().join()
    while not threading._SHUTTING_DOWN:  # type: ignore[attr-defined]  # no other way to see it
        time.sleep(0.01)
    abort()


if case == "at_exit":
    atexit.register(abort)
else:
    threading.Thread(target=abort_after_the_main_thread).start()
