#!/usr/bin/env bash
# Measures what the filter costs on one Envoy worker, next to no filter, a Wasm filter that does nothing, and
# Envoy's own rate limit. About ten minutes; leave the machine alone meanwhile.
#   QUICK=1         about one minute, to try it
#   ROUNDS          how often everything is measured, in a new random order (10)
#   BENCH_SECONDS   of one measurement (2); `make bench SECONDS=2`, since SECONDS is bash's own
#   KEYS            distinct keys of the flood (1000000)
#   RATE            requests a second where latencies are measured; by default half of what the slowest takes
#   REPORT          where the report goes (bench/report.md)
#   TOLLGATE_WASM   another filter than dist/tollgate.wasm
# Expects the filter, Envoy, cargo and wrk: `make bench` sees to them.

# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

WASM_TARGET=wasm32-wasip1
BENCH_TARGET=${CARGO_TARGET_DIR:-$ROOT/target}/bench
TOLLGATE_WASM=${TOLLGATE_WASM:-dist/tollgate.wasm}

[ -f "$TOLLGATE_WASM" ] || die "there is no $TOLLGATE_WASM" "run: make build"
[ -x "$TOLLGATE_ENVOY" ] || die "there is no Envoy at $TOLLGATE_ENVOY" "run: make setup"
for tool in wrk taskset setpriv redis-server redis-cli webdis; do
    have "$tool" || die "there is no $tool" "run: make bench"
done

say "building the filters to compare to and the load generator"
build=(cargo build --release --locked --quiet --manifest-path bench/Cargo.toml --target-dir "$BENCH_TARGET")
"${build[@]}" -p noop-filter -p calls-filter --target "$WASM_TARGET"
"${build[@]}" -p open-loop

export PYTHONDONTWRITEBYTECODE=1
exec python3 bench/run.py \
    --envoy "$TOLLGATE_ENVOY" \
    --tollgate "$TOLLGATE_WASM" \
    --calls "$BENCH_TARGET/$WASM_TARGET/release/calls_filter.wasm" \
    --noop "$BENCH_TARGET/$WASM_TARGET/release/noop_filter.wasm" \
    --open-loop "$BENCH_TARGET/release/open-loop"
