#!/bin/sh
# Prints the Secrets that examples/values.yaml names, with new random content: passwords of the database roles and their
# connection strings, passwords of the NATS users, and the peppers of service keys and receipt URLs.
#
#   sh deploy/examples/secrets.sh despatch nats | kubectl create -f -
#
# Use `create`: it refuses to replace existing Secrets. The peppers must never change; keep a copy of them in a safe place.
set -eu
namespace=${1:-despatch}
nats_namespace=${2:-nats}

random() { openssl rand -hex 24; }

database() {
  cat <<EOF
---
apiVersion: v1
kind: Secret
type: kubernetes.io/basic-auth
metadata: {name: despatch-db-$1, namespace: $namespace}
stringData: {username: despatch_$1, password: "$2"}
EOF
}

nats() {
  cat <<EOF
---
apiVersion: v1
kind: Secret
metadata: {name: despatch-nats, namespace: $1}
stringData: {api-password: "$nats_api", worker-password: "$nats_worker", controller-password: "$nats_controller"}
EOF
}

migrate=$(random) api=$(random) worker=$(random) controller=$(random)
nats_api=$(random) nats_worker=$(random) nats_controller=$(random)
host=despatch-db-rw.$namespace.svc

database migrate "$migrate"
database api "$api"
database worker "$worker"
database controller "$controller"
nats "$namespace"
[ "$namespace" = "$nats_namespace" ] || nats "$nats_namespace"
cat <<EOF
---
apiVersion: v1
kind: Secret
metadata: {name: despatch-postgres, namespace: $namespace}
stringData:
  migrate-uri: postgres://despatch_migrate:$migrate@$host:5432/despatch
  api-uri: postgres://despatch_api:$api@$host:5432/despatch
  worker-uri: postgres://despatch_worker:$worker@$host:5432/despatch
  controller-uri: postgres://despatch_controller:$controller@$host:5432/despatch
---
apiVersion: v1
kind: Secret
metadata: {name: despatch-api, namespace: $namespace}
stringData: {key-pepper: "$(random)"}
---
apiVersion: v1
kind: Secret
metadata: {name: despatch-receipts, namespace: $namespace}
stringData: {receipt-pepper: "$(random)"}
EOF
