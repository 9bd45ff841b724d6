"""The requests that every scenario gets: a realistic mix, as it goes over the wire."""

TENANTS = [("acme", "enterprise"), ("birch", "growth"), ("cobalt", "growth"), ("dune", "sandbox")]
KEYS_PER_TENANT = 4

# Method, path and further headers. Each of Tollgate's kinds of routes is among them.
CALLS = [
    ("GET", "/v1/ledgers", []),
    ("GET", "/v1/ledgers/led_8f14e45f/entries?limit=50&cursor=eyJpZCI6MTI4NH0", []),
    ("GET", "/v1/ledgers", []),
    ("GET", "/v1/accounts/acc_45c48cce/balances", []),
    ("GET", "/v1/reports/audit-export?from=2026-01-01&to=2026-02-01", []),
    ("GET", "/v1/ledgers/led_c9f0f895/entries?limit=50", []),
    ("POST", "/v1/ledgers/reconcile", [("content-length", "0"), ("idempotency-key", "run-6512bd43")]),
]

# What answers: the body of the demo's list of ledgers.
ANSWER = '{"ledgers":[{"id":"led_1","currency":"EUR"},{"id":"led_2","currency":"USD"}]}'


def requests() -> bytes:
    """One request after the other, 13 headers each (15 with a POST's two)."""
    wire = []
    number = 0
    for tenant, tier in TENANTS:
        for key in range(KEYS_PER_TENANT):
            for method, path, more in CALLS:
                number += 1
                headers = [
                    ("host", "api.example.com"),
                    ("user-agent", "ledger-sdk/4.12.0 (linux; x86_64) python/3.11"),
                    ("accept", "application/json"),
                    ("accept-encoding", "gzip, deflate, br"),
                    ("accept-language", "en-GB,en;q=0.9"),
                    ("authorization", "Bearer " + "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9." * 6),
                    ("x-request-id", f"4bf92f35-77b3-4da6-a3ce-{number:012x}"),
                    ("traceparent", f"00-4bf92f3577b34da6a3ce929d0e0e{number:04x}-00f067aa0ba902b7-01"),
                    ("x-client-version", "2026-09-30"),
                    ("cache-control", "no-cache"),
                    ("x-tenant-id", tenant),
                    ("x-api-key-id", f"key_{tenant}_{key}"),
                    ("x-tenant-tier", tier),
                    *more,
                ]
                lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
                wire.append("\r\n".join(lines) + "\r\n\r\n")
    return "".join(wire).encode()
