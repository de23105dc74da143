"""The routers of the matrix: which programs, which modes, and the command line of each pair.

Knows nothing of processes or of abort_sync. Source for every flag: the program's own `--help`; what a program answers
is asserted by the tests beside this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ROUTER_KEY = "sk-router-test"
ADMIN_KEY = "adm-secret-test"
USER_KEY = "usr-secret-test"

# The rows of the matrix, in order, and what each one means.
MODES: dict[str, str] = {
    "plain": "three workers given at the start",
    "data-parallel": "two servers of two ranks each, listed as `url@rank`",
    "prefill/decode": "two prefill servers and one decode server",
    "key": "the router started with an API key",
    "control keys": "the router started with control-plane keys, one admin and one user",
    "gateway route": "the router's own abort route, and workers whose key only it knows",
    "changing": "workers added and removed while they generate",
    "one killed": "one worker of three dies",
    "all killed": "every worker dies",
    "none": "a router without workers",
    "IPv6": "router and worker on [::1]",
    "router first": "the router started before its workers",
}


@dataclass(frozen=True)
class Program:
    """One column of the matrix: a router program and how it differs from the others."""

    name: str
    requirement: str
    launcher: tuple[str, ...]
    in_extra: bool = False  # installed by the extra `routers`; the others get a venv of their own
    not_offered: dict[str, str] = field(default_factory=dict)  # mode: the flag that the program does not know
    extra_arguments: tuple[str, ...] = ()
    dp_arguments: tuple[str, ...] = ("--dp-aware",)
    pd_flag: str = "--pd-disaggregation"
    ipv6_host: str = "::1"
    has_fast_health_checks: bool = True
    has_workers_resource: bool = True  # POST/DELETE /workers; otherwise /add_worker and /remove_worker
    can_remove: bool = True
    guards_listing: bool = True  # with an API key, the listing wants it
    user_key_lists: bool = False  # a control-plane key of a user may list
    dialect: str = "/workers"
    tells_details: bool = True  # the listing holds health and kind
    keeps_the_dead: bool = True  # in the listing, after a request to it failed
    passes_abort_on: bool = False  # an abort sent to the router itself reaches one worker

    def arguments(self, mode: str, port: int, metrics_port: int, workers: Sequence[str]) -> tuple[str, ...]:
        """Return the command line (after the interpreter) that starts this router in `mode`."""
        host = self.ipv6_host if mode == "IPv6" else "127.0.0.1"
        # Unless told otherwise the metrics server binds every interface, a worker is looked for every 30 s, and all
        # generations go to one worker.
        command = [*self.launcher, "--host", host, "--port", str(port), "--prometheus-host", "127.0.0.1"]
        command += ["--prometheus-port", str(metrics_port), "--worker-startup-check-interval", "1"]
        command += ["--policy", "round_robin", *self.extra_arguments]
        if self.has_fast_health_checks:
            command += ["--health-check-interval-secs", "1", "--health-failure-threshold", "2"]
            command += ["--health-check-timeout-secs", "1"]
        if mode == "prefill/decode":
            first, second, decode = workers
            return (*command, self.pd_flag, "--prefill", first, "8998", "--prefill", second, "none", "--decode", decode)
        if mode == "data-parallel":
            command += self.dp_arguments
        elif mode == "key":
            command += ["--api-key", ROUTER_KEY]
        elif mode == "gateway route":
            command += ["--enable-rl", "--api-key", ROUTER_KEY]
        elif mode == "control keys":
            command += ["--control-plane-api-keys", f"a1:Admin:admin:{ADMIN_KEY}", f"u1:User:user:{USER_KEY}"]
        return (*command, "--worker-urls", *workers) if workers else tuple(command)


_NO_ROUTE = {"gateway route": "--enable-rl"}
_NO_CONTROL_KEYS = {"control keys": "--control-plane-api-keys"}

PROGRAMS = (
    Program(
        "sglang-router 0.1.9",
        "sglang-router==0.1.9",
        ("-m", "sglang_router.launch_router"),
        not_offered={**_NO_CONTROL_KEYS, **_NO_ROUTE},
        has_fast_health_checks=False,
        has_workers_resource=False,
        guards_listing=False,
        dialect="/list_workers",
        tells_details=False,
        keeps_the_dead=False,
    ),
    Program(
        "sglang-router 0.2.4",
        "sglang-router==0.2.4",
        ("-m", "sglang_router.launch_router"),
        not_offered={**_NO_CONTROL_KEYS, **_NO_ROUTE},
    ),
    Program(
        "sglang-router 0.3.2",
        "sglang-router==0.3.2",
        ("-m", "sglang_router.launch_router"),
        in_extra=True,
        not_offered=_NO_ROUTE,
        ipv6_host="[::1]",
    ),
    Program(
        "smg 1.13.0",
        "smg==1.13.0",
        # Not the script `smg`: sglang-router 0.3.2 installs one of the same name that starts itself.
        ("-m", "smg", "launch"),
        in_extra=True,
        extra_arguments=("--disable-tokenizer-autoload",),  # without it the gateway asks a model hub
        user_key_lists=True,
    ),
    Program(
        "vllm-router 0.1.17",
        "vllm-router==0.1.17",
        ("-m", "vllm_router.launch_router"),
        not_offered={**_NO_CONTROL_KEYS, **_NO_ROUTE},
        dp_arguments=("--intra-node-data-parallel-size", "2", "--api-key", ROUTER_KEY),
        pd_flag="--vllm-pd-disaggregation",
        has_workers_resource=False,
        guards_listing=False,
        passes_abort_on=True,
    ),
)

# Not a program: a stand-in within the test process, see miles_router.py.
MILES = Program(
    "miles (stand-in)",
    "",
    (),
    in_extra=True,
    not_offered={mode: "" for mode in MODES if mode not in ("plain", "changing", "one killed", "all killed", "none")},
    has_workers_resource=False,
    can_remove=False,
    dialect="/list_workers",
    tells_details=False,
    passes_abort_on=True,
)

ALL = (*PROGRAMS, MILES)
