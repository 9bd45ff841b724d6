"""Envoy's bootstraps: one with a listener for each target, and one that plays the upstream."""

from __future__ import annotations

from dataclasses import dataclass

from scenarios import Scenario
from traffic import ANSWER

LOCALHOST = "127.0.0.1"
HCM = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"

DIRECT = "direct"
UPSTREAM = "upstream"
BACKENDS = {DIRECT: "Answered by Envoy itself (direct_response)", UPSTREAM: "Through an upstream"}


@dataclass(frozen=True)
class Target:
    """A scenario with one of the two ways to answer: a listener."""

    scenario: Scenario
    backend: str

    @property
    def name(self) -> str:
        return f"{self.scenario.name}-{self.backend}"


def under_test(targets: list[Target], upstream_port: int, front_port: int = 1) -> dict:
    """One Envoy with every target on a port of its own, an upstream, and a front of Redis."""
    listeners = []
    for target in targets:
        route = {"route": {"cluster": "api", "timeout": "15s"}} if target.backend == UPSTREAM else _answer()
        listeners.append(_listener(target.name, target.scenario.filters, route))
    return _bootstrap(listeners, [_cluster("api", upstream_port), _cluster("redis-front", front_port)])


def upstream() -> dict:
    """One Envoy that answers everything."""
    return _bootstrap([_listener(UPSTREAM, [], _answer())], [])


def _bootstrap(listeners: list[dict], clusters: list[dict]) -> dict:
    return {
        "admin": {"address": _address(0)},
        "static_resources": {"listeners": listeners, "clusters": clusters},
    }


def _listener(name: str, filters: list[dict], route: dict) -> dict:
    """As in envoy/envoy.yaml, but without an access log."""
    manager = {
        "@type": HCM,
        "stat_prefix": name,
        "use_remote_address": True,
        "xff_num_trusted_hops": 0,
        "normalize_path": True,
        "merge_slashes": True,
        "stream_idle_timeout": "30s",
        "request_headers_timeout": "10s",
        "http_filters": [*filters, {"name": "router", "typed_config": {"@type": ROUTER}}],
        "route_config": {
            "name": name,
            "virtual_hosts": [
                {"name": "api", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, **route}]},
            ],
        },
    }
    return {
        "name": name,
        "address": _address(0),
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }


def _answer() -> dict:
    json = {"header": {"key": "content-type", "value": "application/json"}}
    return {
        "direct_response": {"status": 200, "body": {"inline_string": ANSWER}},
        "response_headers_to_add": [json | {"append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}],
    }


def _cluster(name: str, port: int) -> dict:
    endpoint = {"endpoint": {"address": _address(port)}}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def _address(port: int) -> dict:
    # Port 0: any free one; Envoy tells which.
    return {"socket_address": {"address": LOCALHOST, "port_value": port}}
