# shellcheck shell=bash
# Ports for what is started here: whether one is free, and the next that is.
# Sourced after env.sh, never run. COMMAND is what the user typed.

COMMAND=${COMMAND:-make run}

# port_is_free PORT: nobody listens there. (Envoy itself would share a port with another Envoy.)
port_is_free() {
    python3 - "$1" 2>/dev/null <<'PY'
import socket, sys
with socket.socket() as s:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", int(sys.argv[1])))
    s.listen(1)
PY
}

# need_port NAME PORT: it is a port, and it is free.
need_port() {
    if ! [[ "$2" =~ ^[0-9]{1,5}$ ]] || [ "$2" -lt 1 ] || [ "$2" -gt 65535 ]; then
        die "$1 is '$2', which is no port"
    fi
    port_is_free "$2" || die "port $2 is taken" "choose another one: $COMMAND $1=$(($2 + 2000 > 65535 ? 12000 : $2 + 2000))"
}

# next_port FROM NOT...: the first free port from there on that is none of these.
next_port() {
    local port=$1
    shift
    while [[ " $* " == *" $port "* ]] || ! port_is_free "$port"; do
        port=$((port + 1))
    done
    echo "$port"
}
