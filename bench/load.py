"""One measurement of one target: load for a few seconds, and what Envoy spent on it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bootstrap import Target
from process import TICKS_PER_SECOND, Envoy, on_cores

# Clients at full load, and the most that may wait at a fixed rate.
CLOSED_CONNECTIONS = 64
OPEN_CONNECTIONS = 64
# Of a scenario that refuses, what may pass: buckets refill while it runs.
MAY_PASS = 0.02


@dataclass(frozen=True)
class Sample:
    """What one run of one generator saw. Times in microseconds; latencies are those of a fixed rate only."""

    per_second: float
    cpu: float
    others: float
    p50: float = 0.0
    p99: float = 0.0
    late_p50: float = 0.0
    late_p99: float = 0.0


class Load:
    """The two generators, against the ports of one Envoy."""

    def __init__(self, envoy: Envoy, upstream: Envoy, open_loop: Path, traffic: Path, cores: list[int]) -> None:
        self._envoy = envoy
        self._upstream = upstream
        self._ports = envoy.ports()
        self._open_loop = open_loop
        self._traffic = traffic
        self._cores = cores

    def full(self, target: Target, seconds: int, warm_up: bool = False) -> Sample:
        """As much as goes through: every connection asks again once it is answered."""
        url = f"http://127.0.0.1:{self._ports[target.name]}"
        script = Path(__file__).with_name("load.lua")
        command = ["wrk", "-t1", f"-c{CLOSED_CONNECTIONS}", f"-d{seconds}s", "-s", str(script), url]
        seen, cpu, others = self._measure([*command, "--", str(self._traffic)])
        # While it warms up, what is to refuse lets pass what its full buckets hold.
        if not warm_up:
            _check(target, seen["requests"], seen["refused"], seen["errors"])
        return Sample(seen["requests"] / seen["seconds"], cpu, others)

    def fixed(self, target: Target, seconds: int, rate: int) -> Sample:
        """So many requests a second, whether the answers come or not."""
        port = self._ports[target.name]
        command = [str(self._open_loop), str(port), str(rate), str(seconds), str(OPEN_CONNECTIONS), str(self._traffic)]
        seen, cpu, others = self._measure(command)
        _check(target, seen["requests"], seen["refused"], seen["other"])
        latency = {name: seen[name] for name in ("p50", "p99", "late_p50", "late_p99")}
        return Sample(seen["requests"] / seen["seconds"], cpu, others, **latency)

    def _measure(self, command: list[str]) -> tuple[dict, float, float]:
        """What the generator printed, Envoy's CPU time a request, and how many cores others kept busy meanwhile."""
        start, envoy, ours, busy = time.monotonic(), self._envoy.cpu_seconds(), self._ours(), _busy_seconds()
        run = subprocess.run(on_cores(self._cores, command), capture_output=True, text=True, check=False)
        envoy, ours, busy = self._envoy.cpu_seconds() - envoy, self._ours() - ours, _busy_seconds() - busy
        if run.returncode != 0:
            raise SystemExit(f"error: {command[0]} failed: {run.stderr or run.stdout}")
        seen = json.loads(run.stdout.splitlines()[-1])
        if not seen["requests"]:
            raise SystemExit(f"error: {command[0]} got no answer")
        others = max(0.0, busy - ours) / (time.monotonic() - start)
        return seen, envoy / seen["requests"] * 1e6, others

    def _ours(self) -> float:
        """CPU time of all that takes part, in seconds."""
        parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        generators = sum(part.ru_utime + part.ru_stime for part in parts)
        return generators + self._envoy.cpu_seconds() + self._upstream.cpu_seconds()


def _busy_seconds() -> float:
    """CPU time of everything on this machine, with what its host took away (steal)."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, _first_line("/proc/stat").split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND


def _first_line(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.readline()


def _check(target: Target, requests: int, refused: int, errors: int) -> None:
    """The run was of what its name says; otherwise its numbers mean nothing."""
    passed = requests - refused
    wrong = passed > requests * MAY_PASS if target.scenario.refuses else refused > 0
    if wrong or errors:
        raise SystemExit(
            f"error: {target.name}: {requests} answers, of which {refused} refused and {errors} failed; "
            f"expected {'nearly all' if target.scenario.refuses else 'none'} refused"
        )


def split_cores() -> tuple[list[int], list[int], list[int]]:
    """Cores for the Envoy under test, for the upstream and for the generators, apart as far as they go."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) == 1:
        return cores, cores, cores
    if len(cores) == 2:
        return cores[:1], cores[1:], cores[1:]
    return cores[:1], cores[1:2], cores[2:]
