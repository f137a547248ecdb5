#!/usr/bin/env bash
# Runs a deployment on this machine, on loopback, until Ctrl-C: one Restate node or three, haproxy, and two Everturn processes.
#
#   ./deploy.sh                 one Restate node
#   NODES=3 ./deploy.sh         three nodes that keep every entry on two of them
#
# Needs Node 22 or later, npm and haproxy (apt-get install haproxy). EVERTURN_DATABASE names the database: a SQLite file by default, a Postgres URL for several
# machines. PORTS is added to every port.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

NODES=${NODES:-1}
DATA=${DATA:-$here/data}
PORTS=${PORTS:-0}
EVERTURN=${EVERTURN:-npx everturn}
RESTATE_VERSION=1.7.12
export EVERTURN_DATABASE=${EVERTURN_DATABASE:-$DATA/sessions.db}
export PROXY_PORT=$((9080 + PORTS)) SERVICE_1_PORT=$((9081 + PORTS)) SERVICE_2_PORT=$((9082 + PORTS))
ingress=http://127.0.0.1:$((8080 + PORTS))
admin=http://127.0.0.1:$((9070 + PORTS))

mkdir -p "$DATA"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT

# The server is a package of its own, with another licence (BSL 1.1). Without install scripts and with RESTATE_DISABLE_TELEMETRY it reports nothing.
if [ -z "${RESTATE_SERVER:-}" ]; then
  platform="$(node -p 'process.platform + "-" + process.arch')"
  RESTATE_SERVER="$DATA/server/node_modules/@restatedev/restate-server-$platform/bin/restate-server"
  [ -x "$RESTATE_SERVER" ] || npm install --prefix "$DATA/server" --no-save --no-audit --no-fund --ignore-scripts \
    "@restatedev/restate-server-$platform@$RESTATE_VERSION"
fi

addresses=()
for ((node = 1; node <= NODES; node++)); do addresses+=("\"http://127.0.0.1:$((5121 + node + PORTS))\""); done
for ((node = 1; node <= NODES; node++)); do
  RESTATE_NODE_NAME=node-$node RESTATE_CLUSTER_NAME=everturn RESTATE_BASE_DIR="$DATA/restate" \
    RESTATE_BIND_IP=127.0.0.1 RESTATE_LISTEN_MODE=tcp RESTATE_DISABLE_TELEMETRY=true RESTATE_LOG_FILTER=warn \
    RESTATE_BIND_PORT=$((5121 + node + PORTS)) RESTATE_ADVERTISED_ADDRESS="http://127.0.0.1:$((5121 + node + PORTS))" \
    RESTATE_INGRESS__BIND_PORT=$((8079 + node + PORTS)) RESTATE_ADMIN__BIND_PORT=$((9069 + node + PORTS)) \
    RESTATE_AUTO_PROVISION="$([ $node = 1 ] && echo true || echo false)" \
    RESTATE_DEFAULT_REPLICATION="$((NODES < 2 ? 1 : 2))" \
    RESTATE_METADATA_CLIENT__ADDRESSES="[$(IFS=,; echo "${addresses[*]}")]" \
    RESTATE_DEFAULT_NUM_PARTITIONS="${PARTITIONS:-8}" RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE="${RESTATE_MEMORY:-512MiB}" \
    "$RESTATE_SERVER" --no-logo >"$DATA/restate-$node.log" 2>&1 &
  pids+=($!)
done

haproxy -db -f "$here/haproxy.cfg" >"$DATA/haproxy.log" 2>&1 &
pids+=($!)

for service in 1 2; do
  $EVERTURN serve --no-token --drive restate --restate-ingress "$ingress" --restate-listen "127.0.0.1:$((9080 + service + PORTS))" \
    --port "$((4241 + service + PORTS))" >"$DATA/everturn-$service.log" 2>&1 &
  pids+=($!)
  echo $! >"$DATA/everturn-$service.pid"
done

until curl -sf "$ingress/restate/health" >/dev/null && curl -sf "$admin/health" >/dev/null; do sleep 0.2; done
# Registers the address of the proxy. Restate then asks one of the processes what it serves, so this is repeated until one of them listens.
until curl -sf -X POST "$admin/deployments" -H 'content-type: application/json' \
  -d "{\"uri\": \"http://127.0.0.1:$PROXY_PORT\"}" >"$DATA/registered.json"; do sleep 0.2; done
until curl -sf -X POST "$ingress/EverturnSweeper/main/start/send" -H 'content-type: application/json' -d '{}' >/dev/null; do sleep 0.2; done

echo "Everturn listens on http://127.0.0.1:$((4242 + PORTS)) and http://127.0.0.1:$((4243 + PORTS))"
echo "Restate's user interface is at $admin"
wait
