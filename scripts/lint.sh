#!/usr/bin/env bash
# Formatting and lints; any finding fails.

# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

say "checking formatting"
cargo fmt --all --check
for other in bench fuzz; do
    (cd "$other" && cargo fmt --all --check)
done

say "clippy, native"
cargo clippy --workspace --all-targets -- -D warnings

say "clippy, wasm32-wasip1"
cargo clippy -p tollgate-filter --target wasm32-wasip1 -- -D warnings

if have shellcheck; then
    say "shellcheck"
    shellcheck -x scripts/*.sh .ci/run
else
    say "shellcheck is not installed: the scripts are not checked"
fi
