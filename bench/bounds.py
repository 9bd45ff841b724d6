"""What must not grow and what must be exact: memory under a flood of keys, and one hot key on many workers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bootstrap import DIRECT, Target, under_test
from process import Envoy, on_cores
from scenarios import flooded, hot

CONNECTIONS = 64
# The proxy's memory is looked at after each of these; the report shows some.
FLOOD_SECONDS = 5


@dataclass(frozen=True)
class Footprint:
    """The proxy's memory once it had seen so many distinct keys."""

    keys: int
    resident: int
    evictions: int


@dataclass(frozen=True)
class Hot:
    """One key asked for by several workers at once, against what its limit allows in that time."""

    workers: int
    requests: int
    admitted: int
    allowed: float
    retries: int
    contended: int


def memory(envoy: Path, wasm: Path, keys: int, directory: Path, say: Callable[[str], None]) -> list[Footprint]:
    """Floods one Envoy with so many distinct keys, and looks at its memory on the way."""
    target = Target(flooded(wasm), DIRECT)
    script = Path(__file__).with_name("keys.lua")
    seen: list[Footprint] = []
    with Envoy(str(envoy), "flood", under_test([target], 1), _all_cores(), directory) as proxy:
        url = f"http://127.0.0.1:{proxy.ports()[target.name]}"
        asked = first = 0
        while True:
            counters = _by_name(proxy.counters("wasmcustom.tollgate_"))
            now = Footprint(asked, proxy.resident(), counters.get("tollgate_evictions_total", 0))
            if asked >= keys * len(seen) / 10 or asked >= keys:
                seen.append(now)
            say(f"memory   {asked:12,} keys  {now.resident / 2**20:8.1f} MiB  {now.evictions:,} evictions")
            if asked >= keys:
                return seen
            command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{FLOOD_SECONDS}s", "-s", str(script), url]
            answers = _run([*command, "--", str(first)])
            if answers["errors"] or answers["refused"]:
                raise SystemExit(f"error: the flood of keys was not let through: {answers}")
            asked += answers["requests"]
            # What was still on its way had keys of its own.
            first += answers["requests"] + CONNECTIONS


def contention(
    envoy: Path, wasm: Path, workers: int, seconds: int, directory: Path, say: Callable[[str], None]
) -> Hot:
    """Everybody asks for one key: what was admitted is compared to the limit's arithmetic."""
    scenario, rate, burst = hot(wasm)
    target = Target(scenario, DIRECT)
    with Envoy(str(envoy), f"hot-{workers}", under_test([target], 1), _all_cores(), directory, workers) as proxy:
        url = f"http://127.0.0.1:{proxy.ports()[target.name]}"
        headers = ["-H", "x-tenant-id: acme", "-H", "x-api-key-id: hot", "-H", "x-tenant-tier: growth"]
        script = Path(__file__).with_name("count.lua")
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(script), *headers, url]
        answers = _run(command)
        counters = _by_name(proxy.counters("wasmcustom.tollgate_"))
    found = Hot(
        workers,
        answers["requests"],
        counters.get("allowed", 0),
        burst + rate * answers["seconds"],
        counters.get("tollgate_store_retries_total", 0),
        counters.get("contended", 0),
    )
    say(f"hot key  {workers} workers  {found.admitted:,} admitted, {found.allowed:,.0f} allowed, {found.retries:,} retries")
    return found


def _by_name(counters: dict[str, int]) -> dict[str, int]:
    """Requests by their verdict, and everything else by the metric's name."""
    found: dict[str, int] = {}
    for dotted, value in counters.items():
        parts = dotted.removeprefix("wasmcustom.").split(".")
        name = parts[parts.index("verdict") + 1] if "verdict" in parts else parts[0]
        name = "contended" if "contention" in parts else name
        found[name] = found.get(name, 0) + value
    return found


def _run(command: list[str]) -> dict:
    run = subprocess.run(on_cores(_all_cores(), command), capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"error: {command[0]} failed: {run.stderr or run.stdout}")
    return json.loads(run.stdout.splitlines()[-1])


def _all_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))
