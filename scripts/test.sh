#!/usr/bin/env bash
# Every test of the workspace, the stories on a real Envoy included. Expects dist/tollgate.wasm.

# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

if cargo nextest --version >/dev/null 2>&1; then
    say "running the tests with cargo nextest"
    cargo nextest run --workspace --no-fail-fast
    # nextest runs no documentation tests.
    say "running the documentation tests"
    cargo test --workspace --doc --quiet
else
    say "running the tests with cargo test"
    cargo test --workspace --no-fail-fast
fi
