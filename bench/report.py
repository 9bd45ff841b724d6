"""The report: medians with their spread, and ratios of runs that stood side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from bootstrap import BACKENDS, Target
from bounds import Footprint, Hot
from fleet import Shared
from load import CLOSED_CONNECTIONS, OPEN_CONNECTIONS, Sample
from scenarios import NONE, NOOP

# Samples by the name of their target, one for each round.
Samples = dict[str, list[Sample]]
Value = Callable[[Sample], float]


@dataclass(frozen=True)
class Results:
    """What one run of the benchmark found."""

    facts: list[tuple[str, str]]
    targets: list[Target]
    rates: dict[str, int]
    full: Samples
    fixed: Samples
    counters: dict[str, int]
    shared: dict[str, list[Shared]]
    flood: list[Footprint]
    hot: list[Hot]


def render(results: Results) -> str:
    """The whole document."""
    parts = ["# Benchmark", _INTRODUCTION, _table(["", ""], [list(fact) for fact in results.facts]), _noise(results)]
    for backend, title in BACKENDS.items():
        targets = [target for target in results.targets if target.backend == backend]
        parts += [f"## {title}", f"Full load, {CLOSED_CONNECTIONS} connections:", _full_load(results.full, targets)]
        rate = f"{results.rates[backend]:,} requests a second"
        parts += [f"{rate}, at most {OPEN_CONNECTIONS} at once:", _fixed_rate(results.fixed, targets)]
    parts += ["## With Redis behind Webdis", _REDIS, _fleet(results.shared)]
    parts += ["## Memory under a flood of keys", _FLOOD, _memory(results.flood)]
    parts += ["## One hot key on several workers", _HOT, _contention(results.hot)]
    return "\n\n".join([*parts, "## What was counted", _counted(results.counters), _METHOD]) + "\n"


def summary(results: Results) -> list[str]:
    """A few lines for the terminal: every scenario against the no-op filter."""
    lines = []
    for backend in BACKENDS:
        targets = [target for target in results.targets if target.backend == backend]
        noop = _named(targets, NOOP)
        for target in targets:
            full, fixed = results.full, results.fixed
            lines.append(
                f"{backend:8}  {target.scenario.label:36}"
                f"  throughput {_ratio(full, target, noop, _per_second):.2f}"
                f"  CPU/request {_ratio(full, target, noop, _cpu):.2f}"
                f"  p50 {_ratio(fixed, target, noop, _p50):.2f}"
                f"  p99 {_ratio(fixed, target, noop, _p99):.2f}   of the no-op filter"
            )
    return lines


def _full_load(samples: Samples, targets: list[Target]) -> str:
    none, noop = _named(targets, NONE), _named(targets, NOOP)
    rows = []
    for target in targets:
        rows.append([
            target.scenario.label,
            _spread(samples[target.name], _per_second, 0),
            f"{_ratio(samples, target, none, _per_second):.2f}",
            f"{_ratio(samples, target, noop, _per_second):.2f}",
            _spread(samples[target.name], _cpu, 1),
            f"{_difference(samples, target, none, _cpu):+.1f}",
            f"{_ratio(samples, target, none, _cpu):.2f}",
            f"{_ratio(samples, target, noop, _cpu):.2f}",
            f"{median(map(_busy, samples[target.name])):.0%}",
        ])
    compared = ["÷ no filter", "÷ no-op"]
    head = ["", "requests/s", *compared, "CPU µs/request", "− no filter", *compared, "Envoy busy"]
    return _table(head, rows)


def _fixed_rate(samples: Samples, targets: list[Target]) -> str:
    none, noop = _named(targets, NONE), _named(targets, NOOP)
    rows = []
    for target in targets:
        row = [target.scenario.label]
        for value in (_p50, _p99):
            row.append(_spread(samples[target.name], value, 0))
            row += [f"{_ratio(samples, target, other, value):.2f}" for other in (none, noop)]
        row += [_spread(samples[target.name], _cpu, 1), f"{_ratio(samples, target, noop, _cpu):.2f}"]
        rows.append(row)
    compared = ["÷ no filter", "÷ no-op"]
    return _table(["", "p50 µs", *compared, "p99 µs", *compared, "CPU µs/request", "÷ no-op"], rows)


def _noise(results: Results) -> str:
    every = [sample for runs in (results.full, results.fixed) for samples in runs.values() for sample in samples]
    others = [sample.others for sample in every]
    late = [sample for samples in results.fixed.values() for sample in samples]
    text = (
        f"While it measured, other processes kept {median(others):.2f} cores busy in the median run and "
        f"{max(others):.2f} at most: well above 0, the numbers below are noisy and only the ratios mean anything. "
        f"At the fixed rates the generator sent half of its requests within "
        f"{median(sample.late_p50 for sample in late):.0f} µs and 99 % within "
        f"{median(sample.late_p99 for sample in late):.0f} µs of when they were due, which is part of every latency."
    )
    return textwrap.fill(text, 116)


def _counted(counters: dict[str, int]) -> str:
    """Tollgate's own counters, as evidence that it did what the scenarios say."""
    verdicts: dict[str, int] = {}
    rest: dict[str, int] = {}
    for name, value in counters.items():
        parts = name.split(".")
        if "verdict" in parts:
            verdict = parts[parts.index("verdict") + 1]
            verdicts[verdict] = verdicts.get(verdict, 0) + value
        elif "points_total" not in name:
            short = name.removeprefix("wasmcustom.")
            rest[short] = rest.get(short, 0) + value
    lines = [[f"verdict `{name}`", f"{value:,}"] for name, value in sorted(verdicts.items())]
    lines += [[f"`{name}`", f"{value:,}"] for name, value in sorted(rest.items())]
    return _table(["by Tollgate, warm-up included", ""], lines)


def _fleet(shared: dict[str, list[Shared]]) -> str:
    labels = {NOOP: "no-op Wasm filter", "single": "Tollgate, one call a request", "coalesced": "Tollgate, calls shared"}
    rows = []
    for name, runs in shared.items():
        pairs = list(zip(runs, shared[NOOP]))
        alone = list(zip(runs, shared["single"]))
        row = [labels[name], f"{median(run.per_second for run in runs):,.0f}"]
        row.append(f"{median(a.per_second / b.per_second for a, b in pairs):.2f}")
        row += [f"{median(getattr(run, part) for run in runs):.1f}" for part in ("envoy", "webdis", "redis", "all")]
        row.append(f"{median(a.all / b.all for a, b in alone):.2f}")
        row.append(f"{median(run.batch for run in runs):.1f}")
        rows.append(row)
    head = ["", "requests/s", "÷ no-op", "Envoy µs", "Webdis µs", "Redis µs", "CPU µs/request", "÷ one call each", "requests a call"]
    return _table(head, rows)


def _memory(flood: list[Footprint]) -> str:
    rows = [[f"{at.keys:,}", f"{at.resident / 2**20:.1f}", f"{at.evictions:,}"] for at in flood]
    return _table(["distinct keys so far", "resident MiB", "entries evicted"], rows)


def _contention(hot: list[Hot]) -> str:
    rows = [
        [str(at.workers), f"{at.requests:,}", f"{at.admitted:,}", f"{at.allowed:,.0f}", f"{at.admitted / at.allowed:.4f}"]
        + [f"{at.retries:,}", f"{at.contended:,}"]
        for at in hot
    ]
    head = ["workers", "requests", "admitted", "burst + rate × time", "÷", "swaps tried again", "given up (429)"]
    return _table(head, rows)


def _named(targets: list[Target], scenario: str) -> Target:
    return next(target for target in targets if target.scenario.name == scenario)


def _spread(samples: list[Sample], value: Value, digits: int) -> str:
    values = sorted(value(sample) for sample in samples)
    return f"{median(values):,.{digits}f} ({values[0]:,.{digits}f}–{values[-1]:,.{digits}f})"


def _ratio(samples: Samples, target: Target, other: Target, value: Value) -> float:
    """The median over the rounds of the ratio within a round: what slows a whole round down falls out."""
    return median(value(a) / value(b) for a, b in zip(samples[target.name], samples[other.name]))


def _difference(samples: Samples, target: Target, other: Target, value: Value) -> float:
    return median(value(a) - value(b) for a, b in zip(samples[target.name], samples[other.name]))


def _per_second(sample: Sample) -> float:
    return sample.per_second


def _cpu(sample: Sample) -> float:
    return sample.cpu


def _busy(sample: Sample) -> float:
    """The share of a core that Envoy had."""
    return sample.cpu * sample.per_second / 1e6


def _p50(sample: Sample) -> float:
    return sample.p50


def _p99(sample: Sample) -> float:
    return sample.p99


def _table(head: list[str], rows: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


_INTRODUCTION = """\
Made by `make bench`. What a filter costs on one Envoy worker, next to no filter and to a Wasm filter that does
nothing. Absolute numbers are those of one machine; take the ratios."""

_REDIS = """\
Answered by Envoy itself, 64 connections at full load; Redis and Webdis share a core with the load generator where there
are only two. CPU time is user and system time of all three processes."""

_FLOOD = """\
Every request has a key that was never seen, sixteen keys to a tenant, and `store.memory` is its default, 16 MiB. Full
pages evict what matters least, so the proxy grows while pages fill for the first time, and then no more."""

_HOT = """\
All workers share the key's page and change it by compare-and-swap. What is admitted is what the limit allows, however
many ask: a swap that lost is tried again, and one that lost too often is a 429 that debits nothing."""

_METHOD = """\
## How it was measured

- All listeners are in one Envoy with one worker (`--concurrency 1`), one port for each line of a table, and one is
  measured at a time. Each round takes the tables, and the lines of each, in a new random order.
- Every scenario gets the same mix: 16 keys of 4 tenants in 3 tiers, 5 paths, 13 headers, kept-alive connections.
  There is no access log.
- Tollgate's configuration is that of `envoy/envoy.yaml` plus a route with a template, its limits never met, or, where
  every key is throttled, met at once. `local_ratelimit` is one bucket for all that sends no header.
- Full load is closed-loop (wrk). CPU time is Envoy's user and system time over the requests answered. Where Envoy was
  not nearly 100 % busy, something else was the limit (other processes, the upstream, the generator): compare CPU time.
- The fixed rate is open-loop: arrivals are random with the same schedule for all, and a latency counts from when the
  request was due, not from when it was sent (no coordinated omission).
- Cells are medians over the rounds (lowest–highest). `÷` and `−` compare runs of one round, and are medians too.
- A refused request never reaches the upstream."""
