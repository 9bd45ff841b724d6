"""The benchmark: starts the Envoys, measures every target in every round, writes the report.

Options come from the environment: ROUNDS, BENCH_SECONDS (of one measurement), RATE (of the fixed rate; by
default half of what the slowest target took while warming up), KEYS (of the flood), QUICK=1, REPORT.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import platform
import random
import signal
import subprocess
import tempfile
from pathlib import Path

import bounds
import fleet
import report
import traffic
from bootstrap import BACKENDS, UPSTREAM, Target, under_test, upstream
from load import Load, Sample, split_cores
from process import Envoy
from scenarios import scenarios

WARM_UP_SECONDS = 1


def main() -> None:
    signal.signal(signal.SIGTERM, _stop)
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("envoy", "tollgate", "noop", "calls", "open-loop"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    options = parser.parse_args()
    quick = os.environ.get("QUICK", "") not in ("", "0")
    rounds = _number("ROUNDS", 2 if quick else 10, least=1)
    seconds = _number("BENCH_SECONDS", 1 if quick else 2, least=1)
    wanted_rate = _number("RATE", 0)
    keys = _number("KEYS", 20_000 if quick else 1_000_000, least=10)

    every = scenarios(options.noop.resolve(), options.calls.resolve(), options.tollgate.resolve())
    targets = [Target(scenario, backend) for backend in BACKENDS for scenario in every]
    envoy_cores, upstream_cores, load_cores = split_cores()
    facts = _facts(options, rounds, seconds, (envoy_cores, upstream_cores, load_cores))

    with tempfile.TemporaryDirectory(prefix="tollgate-bench-") as name:
        directory = Path(name)
        requests = directory / "requests"
        requests.write_bytes(traffic.requests())
        binary = str(options.envoy)
        _say("starting the upstream")
        with Envoy(binary, "upstream", upstream(), upstream_cores, directory) as behind:
            _say("starting the Envoy under test")
            bootstrap = under_test(targets, behind.ports()[UPSTREAM])
            with Envoy(binary, "envoy", bootstrap, envoy_cores, directory) as envoy:
                load = Load(envoy, behind, options.open_loop.resolve(), requests, load_cores)
                rates = _warm_up(load, targets, wanted_rate)
                full, fixed = _measure(load, targets, rates, rounds, seconds)
                counters = envoy.counters("wasmcustom.tollgate_")

        binaries = {"envoy": options.envoy, "tollgate": options.tollgate.resolve(), "noop": options.noop.resolve()}
        cores = (envoy_cores, upstream_cores, load_cores)
        shared = fleet.measure(binaries, requests, cores, rounds, seconds, directory, _say)
        flood = bounds.memory(options.envoy, options.tollgate, keys, directory, _say)
        hot = [bounds.contention(options.envoy, options.tollgate, n, 3, directory, _say) for n in (1, 2, 4)]

    results = report.Results(facts, targets, rates, full, fixed, counters, shared, flood, hot)
    path = Path(os.environ.get("REPORT") or "bench/report.md")
    path.write_text(report.render(results))
    print()
    print("\n".join(report.summary(results)))
    print()
    _say(f"the report: {path}")


def _warm_up(load: Load, targets: list[Target], wanted: int) -> dict[str, int]:
    """Lets V8 compile and buckets empty, and finds a fixed rate for each backend that no target is pressed by."""
    slowest: dict[str, float] = {}
    for target in targets:
        per_second = load.full(target, WARM_UP_SECONDS, warm_up=True).per_second
        slowest[target.backend] = min(per_second, slowest.get(target.backend, per_second))
        _say(f"warm-up  {target.name:24} {per_second:8,.0f}/s")
    return {backend: wanted or max(100, int(most / 2) // 100 * 100) for backend, most in slowest.items()}


def _measure(
    load: Load, targets: list[Target], rates: dict[str, int], rounds: int, seconds: int
) -> tuple[dict[str, list[Sample]], dict[str, list[Sample]]]:
    full: dict[str, list[Sample]] = {target.name: [] for target in targets}
    fixed: dict[str, list[Sample]] = {target.name: [] for target in targets}
    minutes = rounds * len(targets) * 2 * seconds / 60
    _say(f"measuring: {rounds} rounds of {len(targets)} targets, about {minutes:.1f} minutes; fixed rates {rates}")
    for number in range(1, rounds + 1):
        # What is compared is measured within seconds: one kind of load on one backend after the other.
        for backend, kind in random.sample([(backend, kind) for backend in BACKENDS for kind in ("full", "fixed")], 4):
            compared = [target for target in targets if target.backend == backend]
            for target in random.sample(compared, len(compared)):
                if kind == "full":
                    sample = load.full(target, seconds)
                    full[target.name].append(sample)
                    saw = f"{sample.per_second:8,.0f}/s"
                else:
                    sample = load.fixed(target, seconds, rates[backend])
                    fixed[target.name].append(sample)
                    saw = f"{sample.p50:8,.0f} µs p50 {sample.p99:8,.0f} µs p99"
                _say(f"round {number}/{rounds}  {kind:5}  {target.name:24} {sample.cpu:6.1f} µs CPU {saw}")
    return full, fixed


def _facts(options: argparse.Namespace, rounds: int, seconds: int, cores: tuple) -> list[tuple[str, str]]:
    version = subprocess.run([options.envoy, "--version"], capture_output=True, text=True, check=True).stdout
    code = options.tollgate.read_bytes()
    envoy, behind, load = (",".join(map(str, part)) for part in cores)
    return [
        ("date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
        ("Envoy", version.split("version:")[-1].strip().split("/")[1]),
        ("machine", f"{_cpu_model()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"),
        ("cores used", f"Envoy {envoy}; upstream {behind}; load generator {load}"),
        ("filter", f"{options.tollgate.name}, {len(code):,} bytes, sha256 {hashlib.sha256(code).hexdigest()[:12]}"),
        ("rounds", f"{rounds}, {seconds} s for each measurement"),
    ]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _number(name: str, default: int, least: int = 0) -> int:
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise SystemExit(f"error: {name} is '{text}', expected a whole number, at least {least}")
    return int(text)


def _stop(*_: object) -> None:
    raise SystemExit("stopped")


def _say(what: str) -> None:
    print(f"==> {what}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("stopped") from None
