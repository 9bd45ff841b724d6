#!/usr/bin/env bash
# Fuzzes each target for some seconds: scripts/fuzz.sh SECONDS. What is found stays in fuzz/artifacts.

# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

rustup run nightly rustc --version >/dev/null 2>&1 || {
    say "installing the nightly toolchain, which fuzzing needs"
    rustup toolchain install nightly --profile minimal
}
cargo +nightly fuzz --version >/dev/null 2>&1 || {
    say "installing cargo-fuzz"
    cargo +stable install --locked cargo-fuzz
}
for target in $(cargo +nightly fuzz list); do
    say "fuzzing $target for $1 seconds"
    mkdir -p "fuzz/corpus/$target"
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "tests/corpora/seeds/$target" -- \
        -max_total_time="$1" -max_len=4096 -print_final_stats=1
done
