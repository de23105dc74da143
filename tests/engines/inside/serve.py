"""Run the SGLang server, with its worker processes forked instead of spawned.

A spawned process imports everything again: 10 s of a core each, for three processes an engine. Without a GPU a fork is safe.
"""

import ctypes
import multiprocessing
import runpy
import signal

PR_SET_PDEATHSIG = 1

ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # never outlive the tests, however they end
set_start_method = multiprocessing.set_start_method
multiprocessing.set_start_method = lambda method, force=False: set_start_method("fork", force=force)
runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
