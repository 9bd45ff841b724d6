"""With Redis: what a decision costs when every request calls for itself, and when calls are shared."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bootstrap import DIRECT, Target, under_test
from load import CLOSED_CONNECTIONS
from process import Envoy, cpu_seconds_of, on_cores
from scenarios import NOOP, with_redis

START_TIMEOUT = 20.0


@dataclass(frozen=True)
class Shared:
    """One run at full load: requests a second, CPU time a request by process, and decisions a call."""

    per_second: float
    envoy: float
    webdis: float
    redis: float
    batch: float

    @property
    def all(self) -> float:
        """CPU time of all three, in microseconds a request."""
        return self.envoy + self.webdis + self.redis


class Server:
    """A process that listens on a port. A context manager: leaving it stops the process."""

    def __init__(self, command: list[str], port: int, cores: list[int]) -> None:
        self.port = port
        self._process = subprocess.Popen(
            on_cores(cores, command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> Server:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.05)
        self.__exit__()
        raise SystemExit(f"error: {self._process.args} did not listen on port {self.port}")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return cpu_seconds_of(self._process.pid)


def redis(directory: Path, cores: list[int]) -> Server:
    """A Redis that keeps nothing."""
    port = _free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    return Server(command, port, cores)


def webdis(behind: Server, directory: Path, cores: list[int]) -> Server:
    """A Webdis before it, as its package configures it."""
    port = _free_port()
    config = directory / "webdis.json"
    config.write_text(json.dumps({
        "redis_host": "127.0.0.1", "redis_port": behind.port, "http_host": "127.0.0.1", "http_port": port,
        "threads": 2, "pool_size": 8, "daemonize": False, "websockets": False, "verbosity": 1,
        "logfile": str(directory / "webdis.log"), "acl": [],
    }))
    return Server(["webdis", str(config)], port, cores)


def measure(
    binaries: dict[str, Path], requests: Path, cores: tuple, rounds: int, seconds: int, directory: Path,
    say: Callable[[str], None],
) -> dict[str, list[Shared]]:
    """Full load on a no-op filter, on one call a request, and on shared calls, by the scenario's name."""
    envoy_cores, store_cores, load_cores = cores
    targets = [Target(scenario, DIRECT) for scenario in with_redis(binaries[NOOP], binaries["tollgate"])]
    seen: dict[str, list[Shared]] = {target.scenario.name: [] for target in targets}
    with redis(directory, store_cores) as store, webdis(store, directory, store_cores) as front:
        bootstrap = under_test(targets, 1, front.port)
        with Envoy(str(binaries["envoy"]), "fleet", bootstrap, envoy_cores, directory) as envoy:
            ports = envoy.ports()
            for number in range(rounds + 1):
                for target in random.sample(targets, len(targets)):
                    name = target.scenario.name
                    parts = (envoy, front, store)
                    before, calls = [part.cpu_seconds() for part in parts], _scripts(store.port)
                    answers = _load(ports[target.name], requests, load_cores, seconds)
                    spent = [(part.cpu_seconds() - b) / answers["requests"] * 1e6 for part, b in zip(parts, before)]
                    calls = _scripts(store.port) - calls
                    if answers["refused"] or answers["errors"]:
                        raise SystemExit(f"error: {target.name}: {answers}, expected all to pass")
                    if number == 0:  # V8 compiles, the script is loaded.
                        continue
                    batch = answers["requests"] / calls if calls else 0.0
                    found = Shared(answers["requests"] / answers["seconds"], *spent, batch)
                    seen[name].append(found)
                    say(f"round {number}/{rounds}  redis  {name:20} {found.per_second:8,.0f}/s {found.all:6.1f} µs CPU in all")
            _no_store_errors(envoy)
    return seen


def _load(port: int, requests: Path, cores: list[int], seconds: int) -> dict:
    script = Path(__file__).with_name("load.lua")
    command = ["wrk", "-t1", f"-c{CLOSED_CONNECTIONS}", f"-d{seconds}s", "-s", str(script), f"http://127.0.0.1:{port}"]
    run = subprocess.run(on_cores(cores, [*command, "--", str(requests)]), capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"error: wrk failed: {run.stderr or run.stdout}")
    return json.loads(run.stdout.splitlines()[-1])


def _scripts(port: int) -> int:
    """How often Redis ran the script."""
    run = subprocess.run(
        ["redis-cli", "-p", str(port), "INFO", "commandstats"], capture_output=True, text=True, check=True
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("cmdstat_evalsha:")]
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines)


def _no_store_errors(envoy: Envoy) -> None:
    """What failed was decided without Redis: then the numbers are of something else."""
    counters = envoy.counters("wasmcustom.tollgate_degraded_total")
    failed = sum(counters.values())
    total = sum(envoy.counters("wasmcustom.tollgate_requests_total").values())
    if failed > total / 100:
        raise SystemExit(f"error: the store failed for {failed:,} of {total:,} requests")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
