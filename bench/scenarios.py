"""What is compared: the HTTP filters before the router, one list for each scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

WASM = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"
LOCAL_RATE_LIMIT = "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"

# The two that the others are compared to.
NONE = "none"
NOOP = "noop"


@dataclass(frozen=True)
class Scenario:
    """One list of filters, and whether it answers nearly every request with a 429."""

    name: str
    label: str
    filters: list[dict]
    refuses: bool = False


def scenarios(noop: Path, calls: Path, tollgate: Path) -> list[Scenario]:
    """All of them, the cheapest first."""
    return [
        Scenario(NONE, "no filter", []),
        Scenario(NOOP, "no-op Wasm filter", [_wasm("noop", noop, {})]),
        Scenario("calls", "Tollgate's host calls, deciding nothing", [_wasm("calls", calls, {})]),
        Scenario("local_ratelimit", "Envoy's local_ratelimit", [_local_rate_limit()]),
        Scenario("tollgate", "Tollgate", [_wasm("tollgate", tollgate, _tollgate())]),
        Scenario(
            "tollgate_ip",
            "Tollgate, with ip_limit",
            [_wasm("tollgate_ip", tollgate, _tollgate() | {"ip_limit": _PLENTY})],
        ),
        Scenario(
            "tollgate_429",
            "Tollgate, every key throttled (429)",
            [_wasm("tollgate_429", tollgate, _tollgate(key=_SCARCE))],
            refuses=True,
        ),
    ]


def flooded(tollgate: Path) -> Scenario:
    """Every request has a key that was never seen, and no bucket is full again before it must make room."""
    slow = {"points": 10_000, "per": "1d", "burst": 10_000}
    config = _tollgate(key=slow)
    config["tiers"]["growth"]["tenant"] = slow
    return Scenario("flood", "a flood of keys", [_wasm("flood", tollgate, config)])


def hot(tollgate: Path) -> tuple[Scenario, float, float]:
    """One key that everybody asks for, with what it is refilled by in a second and what it holds."""
    rate, burst = 500, 2000
    key = {"points": rate, "per": "1s", "burst": burst}
    config = _tollgate(key=key) | {"penalty_box": {"mode": "off"}}
    return Scenario("hot", "one hot key", [_wasm("hot", tollgate, config)]), rate, burst


def with_redis(noop: Path, tollgate: Path) -> list[Scenario]:
    """The no-op filter, and Tollgate on Redis with a call for each request and with shared calls."""
    config = _tollgate() | {"store": {"kind": "redis", "upstream": "redis-front", "timeout": "1s"}}
    return [
        Scenario(NOOP, "no-op Wasm filter", [_wasm("noop_fleet", noop, {})]),
        Scenario("single", "Tollgate on Redis, one call a request", [_wasm("single", tollgate, config, coalesce="off")]),
        Scenario("coalesced", "Tollgate on Redis, calls shared", [_wasm("coalesced", tollgate, config)]),
    ]


def _wasm(name: str, code: Path, configuration: dict, coalesce: str = "on") -> dict:
    """A Wasm filter with a VM, and so with state, of its own."""
    return {
        "name": name,
        "typed_config": {
            "@type": WASM,
            "config": {
                "name": name,
                "root_id": name,
                "failure_policy": "FAIL_RELOAD",
                "vm_config": {
                    "vm_id": name,
                    "runtime": "envoy.wasm.runtime.v8",
                    "environment_variables": {"key_values": {"TOLLGATE_COALESCE": coalesce}},
                    "code": {"local": {"filename": str(code)}},
                },
                "configuration": {"@type": "type.googleapis.com/google.protobuf.Struct", "value": configuration},
            },
        },
    }


def _local_rate_limit() -> dict:
    """One bucket for all clients, never empty, and no header in the answer."""
    always = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    return {
        "name": "local_ratelimit",
        "typed_config": {
            "@type": LOCAL_RATE_LIMIT,
            "stat_prefix": "local_ratelimit",
            "token_bucket": {"max_tokens": 1_000_000_000, "tokens_per_fill": 1_000_000_000, "fill_interval": "1s"},
            "filter_enabled": always,
            "filter_enforced": always,
        },
    }


# A limit that is met at once, and from then on: hardly anything is refilled while the benchmark runs.
_SCARCE = {"points": 60, "per": "1d", "burst": 60}

# A limit that nobody meets.
_PLENTY = {"points": 1_000_000_000, "per": "1s", "burst": 1_000_000_000}


def _tollgate(key: dict = _PLENTY) -> dict:
    """The configuration of envoy/envoy.yaml with other limits, and a box that no number of refusals reaches."""
    tier = {"tenant": _PLENTY, "key": key, "penalty": {"strikes": 1_000_000, "within": "1s"}}
    return {
        "mode": "enforce",
        "store": {"kind": "local"},
        "identity": {
            "tenant": {"header": "x-tenant-id"},
            "key": {"header": "x-api-key-id"},
            "tier": {"header": "x-tenant-tier"},
            "default_tier": "sandbox",
            "client_ip": {"from": "connection", "ipv6_prefix": 64},
        },
        "anonymous": {"limit": "60/minute"},
        "exempt": ["/healthz"],
        "tiers": {"sandbox": tier, "growth": tier, "enterprise": tier},
        "penalty_box": {"mode": "enforce", "grace": "1s"},
        "routes": [
            {
                "name": "reconcile",
                "match": {"methods": ["POST"], "path": "/v1/ledgers/reconcile"},
                "cost": 10,
                "idempotency_key": "required",
                "on_store_failure": "closed",
            },
            {
                "name": "audit_export",
                "match": {"methods": ["GET"], "path": "/v1/reports/audit-export"},
                "cost": {"base": 25, "when_range": {"from": "from", "to": "to", "longer_than": "90d", "cost": 50}},
                "on_store_failure": "closed",
            },
            {
                "name": "entries",
                "match": {"methods": ["GET"], "path": "/v1/ledgers/{ledger_id}/entries"},
                "cost": 2,
            },
            {"name": "mutations", "match": {"methods": ["POST"], "path": "/v1/*"}, "idempotency_key": "required"},
        ],
        "headers": {"dialect": "draft-03"},
        "problem": {"type_base": "https://api.yourdomain.com/errors/"},
    }
