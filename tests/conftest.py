"""What holds for every test: no setting of the machine reaches it, and no example is drawn by luck."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

# Proxies, certificates and the product's own settings would send a test somewhere else. Taken away once, before any
# test, so that child processes do not inherit them either.
SETTINGS = """
    ABORT_SYNC_ROUTER_URL ABORT_SYNC_ROUTER_KEY ABORT_SYNC_WORKER_KEY ABORT_SYNC_WORKER_ADMIN_KEY AGENT_SERVER_URL
    SWE_AGENT_URL HARBOR_ADMIN_SECRET NETRC REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NO_COLOR FORCE_COLOR
"""
for name in list(os.environ):
    if name.lower().endswith("_proxy") or name in SETTINGS.split():
        del os.environ[name]

# A shell's background job ignores Ctrl-C, and so would every child: the tests that send it would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No limit on time (a busy machine stalls for seconds), and the same examples in every run of CI.
settings.register_profile(
    "suite",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
    derandomize="CI" in os.environ,
    print_blob=True,
)
settings.load_profile("suite")
