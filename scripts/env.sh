# shellcheck shell=bash
# What every script starts from: the root of the repository, the PATH, and how to speak.
# Sourced, never run.

set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$ROOT"

# rustup installs here; a shell that was open before does not have it on its PATH yet.
export PATH="${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH"

# The Envoy that setup.sh installs; TOLLGATE_ENVOY points at another one.
# shellcheck disable=SC2034  # used by the scripts that source this file
ENVOY_VERSION=1.40.0
export TOLLGATE_ENVOY="${TOLLGATE_ENVOY:-$ROOT/.tools/bin/envoy}"

# say WHAT: one line for one step.
say() { printf '==> %s\n' "$*"; }

# die WHY [WHAT TO DO...]: one line each, then the end.
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    [ $# -eq 0 ] || printf '       %s\n' "$@" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }
