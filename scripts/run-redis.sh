#!/usr/bin/env bash
# Starts Redis, Webdis before it, and Envoy with the filter and a demo API, in the foreground; all of it ends together.
#   PORT, ADMIN_PORT, API_PORT   as for run.sh
#   REDIS_PORT, WEBDIS_PORT      instead of the first free ones from 6379 and 7379 on
#   REDIS=HOST:PORT              a Redis that runs already: only Webdis and Envoy are started
#   WEBDIS_URL=http://HOST:PORT  a Webdis that runs already: only Envoy is started
# Expects dist/tollgate.wasm, Envoy, redis-server and webdis: `make run-redis` sees to them.

# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"
export COMMAND="make run-redis"
# shellcheck source=scripts/ports.sh
source scripts/ports.sh

export PORT="${PORT:-10000}"
export ADMIN_PORT="${ADMIN_PORT:-9901}"
# Before anything is started.
need_port PORT "$PORT"
need_port ADMIN_PORT "$ADMIN_PORT"
[ -z "${API_PORT:-}" ] || need_port API_PORT "$API_PORT"
RUN_DIR=.tools/run/$PORT-redis
mkdir -p "$RUN_DIR"
started=()
redis_pid=

# shellcheck disable=SC2317  # the traps call it
stop() {
    trap - INT TERM HUP EXIT
    # The last one first: Envoy, Webdis, Redis.
    local i
    for ((i = ${#started[@]} - 1; i >= 0; i--)); do
        # One that was halted to see what happens does not hear anything else.
        kill -CONT "${started[i]}" 2>/dev/null || true
        kill -TERM "${started[i]}" 2>/dev/null || true
    done
    # Only then: a wait for one must not keep another halted.
    wait
}
trap stop EXIT
trap 'stop; exit 0' INT TERM HUP

# until_answers WHAT PID LOG COMMAND...: waits until the command succeeds, while the process lives.
until_answers() {
    local what=$1 pid=$2 log=$3
    shift 3
    for _ in $(seq 100); do
        kill -0 "$pid" 2>/dev/null || { cat "$log" >&2; die "$what did not start"; }
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    die "$what did not answer within 10 seconds (its log: $log)"
}

start_redis() {
    if [ -n "${REDIS_PORT:-}" ]; then
        need_port REDIS_PORT "$REDIS_PORT"
    else
        REDIS_PORT=$(next_port 6379 "$PORT" "$ADMIN_PORT" "${API_PORT:-}" "${WEBDIS_PORT:-}")
    fi
    say "starting Redis: port $REDIS_PORT, nothing is kept on disk"
    redis-server --bind 127.0.0.1 --port "$REDIS_PORT" --save "" --appendonly no \
        --maxmemory-policy noeviction --dir "$RUN_DIR" >"$RUN_DIR/redis.log" 2>&1 &
    redis_pid=$!
    started+=("$redis_pid")
    until_answers Redis "$redis_pid" "$RUN_DIR/redis.log" redis-cli -p "$REDIS_PORT" ping
    REDIS=127.0.0.1:$REDIS_PORT
}

start_webdis() {
    if [ -n "${WEBDIS_PORT:-}" ]; then
        need_port WEBDIS_PORT "$WEBDIS_PORT"
    else
        WEBDIS_PORT=$(next_port 7379 "$PORT" "$ADMIN_PORT" "${API_PORT:-}")
    fi
    cat >"$RUN_DIR/webdis.json" <<JSON
{
    "redis_host": "${REDIS%:*}",
    "redis_port": ${REDIS##*:},
    "redis_auth": null,
    "http_host": "127.0.0.1",
    "http_port": $WEBDIS_PORT,
    "threads": 2,
    "pool_size": 10,
    "daemonize": false,
    "database": 0,
    "verbosity": 0,
    "logfile": "$RUN_DIR/webdis.log"
}
JSON
    say "starting Webdis: port $WEBDIS_PORT, before Redis at $REDIS"
    webdis "$RUN_DIR/webdis.json" >"$RUN_DIR/webdis.out" 2>&1 &
    started+=("$!")
    WEBDIS_URL=http://127.0.0.1:$WEBDIS_PORT
    until_answers Webdis "$!" "$RUN_DIR/webdis.out" curl -fsS "$WEBDIS_URL/PING"
}

if [ -z "${WEBDIS_URL:-}" ]; then
    if [ -n "${REDIS:-}" ]; then
        [[ "$REDIS" =~ ^[^:/]+:[0-9]+$ ]] || die "REDIS is '$REDIS', which is no HOST:PORT"
        pong=$(redis-cli -h "${REDIS%:*}" -p "${REDIS##*:}" ping 2>&1) || true
        [ "$pong" = PONG ] ||
            die "Redis at $REDIS answered '$pong' to PING, expected PONG" "it must run, and want no password"
    else
        start_redis
    fi
    start_webdis
fi
[[ "$WEBDIS_URL" =~ ^http://([^/:]+):([0-9]+)/?$ ]] || die "WEBDIS_URL is '$WEBDIS_URL', which is no http://HOST:PORT"
front_host=${BASH_REMATCH[1]} front_port=${BASH_REMATCH[2]}
pong=$(curl -sS --max-time 5 "${WEBDIS_URL%/}/PING" 2>&1) || true
[[ "$pong" == *PONG* ]] ||
    die "Webdis at $WEBDIS_URL answered '$pong' to PING, expected PONG" "it must run, have a Redis, and need no credentials"

# envoy/envoy.yaml with the two parts that envoy/redis.yaml tells of.
sed -e '/^#/d; s/^/    /' -e "s/address: 127.0.0.1, port_value: 7379/address: $front_host, port_value: $front_port/" \
    envoy/redis.yaml >"$RUN_DIR/cluster.yaml"
sed -e 's/store: {kind: local}/store: {kind: redis, upstream: redis-front}/' \
    -e "/^  clusters:\$/r $RUN_DIR/cluster.yaml" envoy/envoy.yaml >"$RUN_DIR/envoy.yaml"
[ "$(grep -cE 'store: \{kind: redis, upstream: redis-front\}$|^    - name: redis-front$' "$RUN_DIR/envoy.yaml")" = 2 ] ||
    die "envoy/envoy.yaml has no place for Redis any more"

{
    if [ -n "${REDIS:-}" ]; then
        cli="redis-cli -h ${REDIS%:*} -p ${REDIS##*:}"
        cat <<EOT
  # what is in Redis: the keys, how long they live (until a minute after a bucket is full again), and a key's
  # bucket: s / u are the points it has spent (docs/redis.md tells the other fields)
  $cli --scan
  $cli pttl 'rl:{t:acme}:tb:key-1'
  $cli hgetall 'rl:{t:acme}:tb:key-1'

  # out of the penalty box by hand: within 10 seconds everywhere
  $cli del 'pb:{t:deaf}:box:key-1'
EOT
    else
        echo "  # what is in Redis, by redis-cli on the host that it runs on"
        echo "  redis-cli --scan"
    fi
    cat <<EOT

  # a second gateway on the same Redis, in another terminal
  make run-redis WEBDIS_URL=$WEBDIS_URL PORT=$((PORT + 1000)) ADMIN_PORT=$((ADMIN_PORT + 1000))

  # six exports fit, whichever of the two gateways they meet; the seventh is a 429
  for port in $PORT $((PORT + 1000)) $PORT $((PORT + 1000)) $PORT $((PORT + 1000)) $PORT; do
    curl -so /dev/null -w "\$port %{http_code}\\n" http://127.0.0.1:\$port/v1/reports/audit-export \\
      -H 'x-tenant-id: both' -H 'x-api-key-id: key-1' -H 'x-tenant-tier: sandbox'
  done
EOT
    [ -z "$redis_pid" ] || cat <<EOT

  # without Redis: reconcile, close and audit-export answer 503, anything else is held to a quarter of its limit
  # (RateLimit-Limit: 375); two seconds after it is back, so is everything
  kill -STOP $redis_pid
  kill -CONT $redis_pid
EOT
} >"$RUN_DIR/try.txt"

# It gets no signal of its own: what is typed at the terminal is heard here.
ENVOY_CONFIG=$RUN_DIR/envoy.yaml TRY_ALSO=$RUN_DIR/try.txt scripts/run.sh &
started+=("$!")
wait "$!" && code=0 || code=$?
exit "$code"
