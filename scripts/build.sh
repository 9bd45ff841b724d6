#!/usr/bin/env bash
# Builds what is shipped into dist/.

# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

WASM_TARGET=wasm32-wasip1
TARGET_DIR="${CARGO_TARGET_DIR:-target}"

# ship FILE NAME [MODE]: into dist/ in one step, so that a proxy that reads it meanwhile never sees half of it.
ship() {
    mkdir -p dist
    install -m "${3:-644}" "$1" "dist/.$2.$$"
    mv -f "dist/.$2.$$" "dist/$2"
    say "dist/$2: $(wc -c <"dist/$2" | tr -d ' ') bytes"
}

say "building the filter"
cargo build --release --target "$WASM_TARGET" -p tollgate-filter
ship "$TARGET_DIR/$WASM_TARGET/release/tollgate_filter.wasm" tollgate.wasm
