#!/usr/bin/env bash
# Starts Envoy with the filter and a demo API behind it, in the foreground, and says what to try.
#   PORT, ADMIN_PORT, API_PORT   instead of 10000, 9901 and 10001
#   ENVOY_CONFIG                 another bootstrap than envoy/envoy.yaml
#   TRY_ALSO                     a file with more to try
# Expects dist/tollgate.wasm and Envoy: `make run` sees to both.

# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"
# shellcheck source=scripts/ports.sh
source scripts/ports.sh

PORT="${PORT:-10000}"
ADMIN_PORT="${ADMIN_PORT:-9901}"
CONFIG="${ENVOY_CONFIG:-envoy/envoy.yaml}"
RUN_DIR=.tools/run/$PORT
LOG=$RUN_DIR/envoy.log

need_port PORT "$PORT"
need_port ADMIN_PORT "$ADMIN_PORT"
[ "$PORT" != "$ADMIN_PORT" ] || die "PORT and ADMIN_PORT are both $PORT"
if [ -n "${API_PORT:-}" ]; then
    need_port API_PORT "$API_PORT"
else
    # Nobody but Envoy itself talks to the demo API: any port will do.
    API_PORT=$(next_port 10001 "$PORT" "$ADMIN_PORT")
fi
[ -f dist/tollgate.wasm ] || die "there is no dist/tollgate.wasm" "run: make build"
[ -x "$TOLLGATE_ENVOY" ] || die "there is no Envoy at $TOLLGATE_ENVOY" "run: make setup"

mkdir -p "$RUN_DIR"
sed -e "s/port_value: 10000\b/port_value: @PORT@/" \
    -e "s/port_value: 9901\b/port_value: @ADMIN_PORT@/" \
    -e "s/port_value: 10001\b/port_value: @API_PORT@/" \
    -e "s/@PORT@/$PORT/; s/@ADMIN_PORT@/$ADMIN_PORT/; s/@API_PORT@/$API_PORT/" \
    "$CONFIG" >"$RUN_DIR/envoy.yaml"

say "starting Envoy: port $PORT, admin 127.0.0.1:$ADMIN_PORT, log in $LOG"
"$TOLLGATE_ENVOY" --config-path "$RUN_DIR/envoy.yaml" --disable-hot-restart \
    --log-level warning --component-log-level wasm:info --file-flush-interval-msec 100 2>"$LOG" &
envoy=$!
started=("$envoy")

# shellcheck disable=SC2317  # the traps call it
stop() {
    trap - INT TERM HUP EXIT
    kill -TERM "${started[@]}" 2>/dev/null || true
    wait "${started[@]}" 2>/dev/null || true
}
trap stop EXIT
trap 'stop; echo; say "stopped"; exit 0' INT TERM HUP

for _ in $(seq 300); do
    if ! kill -0 "$envoy" 2>/dev/null; then
        # What the filter found wrong, in its own words; else whatever Envoy says.
        if grep -q 'wasm log tollgate' "$LOG"; then
            sed -n 's/.*wasm log tollgate[^:]*: //p' "$LOG" | awk '!seen[$0]++' >&2
        else
            grep -iE 'error|critical' "$LOG" >&2 || cat "$LOG" >&2
        fi
        die "Envoy did not start (its whole log: $LOG)"
    fi
    [ "$(curl -s "http://127.0.0.1:$ADMIN_PORT/ready" 2>/dev/null)" = LIVE ] && ready=1 && break
    sleep 0.1
done
[ "${ready:-0}" = 1 ] || die "Envoy was not ready within 30 seconds (its log: $LOG)"

# ledger: what to try with the demo ledger.
ledger() {
    cat <<EOT
  # an allowed request: the RateLimit headers tell where this key stands
  curl -i http://127.0.0.1:$PORT/v1/ledgers \\
    -H 'x-tenant-id: acme' -H 'x-api-key-id: key-1' -H 'x-tenant-tier: growth'

  # an expensive one: 10 points, and it must carry an Idempotency-Key (leave it out: 400)
  curl -i -X POST http://127.0.0.1:$PORT/v1/ledgers/reconcile -H 'idempotency-key: run-1' \\
    -H 'x-tenant-id: acme' -H 'x-api-key-id: key-1' -H 'x-tenant-tier: growth'

  # too fast: exports of 25 points against the sandbox key's 150 a minute; the 7th is a 429 that explains itself
  for i in 1 2 3 4 5 6 7; do curl -s -i http://127.0.0.1:$PORT/v1/reports/audit-export \\
    -H 'x-tenant-id: hasty' -H 'x-api-key-id: key-1' -H 'x-tenant-tier: sandbox'; echo; done

  # and on against every Retry-After: 429 with a Warning, then the penalty box (Active-Lockout)
  for i in \$(seq 40); do curl -s -o /dev/null -D - http://127.0.0.1:$PORT/v1/reports/audit-export \\
    -H 'x-tenant-id: deaf' -H 'x-api-key-id: key-1' -H 'x-tenant-tier: sandbox' | tr -d '\r' |
    awk '/^HTTP/ { s = \$2 } tolower(\$1) == "x-penalty-box-status:" { b = \$2 } END { print s, b }'; done | uniq -c

  # one at a time for a ledger: the second is a 409 while the first takes its three seconds
  for i in 1 2; do curl -s -i -X POST http://127.0.0.1:$PORT/v1/ledgers/led_1/close -H "idempotency-key: run-\$i" \\
    -H 'x-tenant-id: acme' -H 'x-api-key-id: key-1' -H 'x-tenant-tier: growth' \\
    -H 'x-envoy-fault-delay-request: 3000' & sleep 1; done; wait
EOT
    [ -z "${TRY_ALSO:-}" ] || { echo && cat "$TRY_ALSO"; }
}

# about: what another bootstrap says of itself at its top, with the ports that it has here.
about() {
    sed -n -e '/^#/!q' -e 's/^# \{0,1\}/  /p' "$CONFIG" |
        sed -e "s/127\.0\.0\.1:10000\b/127.0.0.1:$PORT/g" -e "s/127\.0\.0\.1:9901\b/127.0.0.1:$ADMIN_PORT/g"
}

cat <<EOT

Tollgate is ready on http://127.0.0.1:$PORT (Ctrl-C ends it). In another terminal:

$(if [ "$CONFIG" = envoy/envoy.yaml ] || [ -n "${TRY_ALSO:-}" ]; then ledger; else about; fi)

  # the metrics
  curl -s http://127.0.0.1:$ADMIN_PORT/stats/prometheus | grep '^tollgate_'

The access log, one line a request:

EOT
# Warnings, and what the filter logs, from here on.
tail -n +1 -F --pid="$envoy" "$LOG" >&2 2>/dev/null &
started+=($!)
wait "$envoy" && code=0 || code=$?
die "Envoy ended by itself with status $code (its log: $LOG)"
