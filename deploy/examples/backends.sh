#!/bin/sh
# Installs Despatch's backends into an empty cluster: cert-manager, Postgres (CloudNativePG), NATS and Vault, all with TLS, and
# their Secrets, policies and roles. Needs kubectl, helm, openssl, jq and Node 20 or newer. May be run again; it replaces no
# Secret. It writes Vault's keys to vault-keys.json in the current folder: keep that file safe.
#
#   sh deploy/examples/backends.sh
set -eu
cd "$(dirname "$0")/../.."
umask 077

namespace() { kubectl create namespace "$1" --dry-run=client -o yaml | kubectl apply -f -; }
chart() { # release, chart, repository, namespace, further arguments
  release=$1 name=$2 repository=$3 where=$4
  shift 4
  helm upgrade --install "$release" "$name" --repo "$repository" --namespace "$where" --create-namespace "$@"
}
refuse() {
  echo "$1" >&2
  exit 1
}
within() { # tries, command: repeats the command once a second until it succeeds
  left=$1
  shift
  until "$@"; do
    left=$((left - 1))
    [ $left -gt 0 ] || refuse 'Vault does not answer. See: kubectl -n vault describe pod vault-0'
    sleep 1
  done
}
for name in despatch nats vault; do namespace $name; done
kubectl label --overwrite namespace despatch pod-security.kubernetes.io/enforce=restricted

# Certificates.
chart cert-manager cert-manager https://charts.jetstack.io cert-manager --set crds.enabled=true --wait
kubectl apply -f deploy/examples/certificates.yaml
kubectl -n cert-manager wait certificate/backends-ca --for=condition=Ready --timeout=3m
kubectl -n nats wait certificate/nats-tls --for=condition=Ready --timeout=3m
kubectl -n vault wait certificate/vault-tls --for=condition=Ready --timeout=3m
kubectl -n cert-manager get secret backends-ca -o jsonpath='{.data.ca\.crt}' | base64 -d > backends-ca.crt
kubectl -n despatch create secret generic backends-ca --from-file=ca.crt=backends-ca.crt --dry-run=client -o yaml | kubectl apply -f -

# Passwords, connection strings, the pepper.
kubectl -n despatch get secret despatch-postgres > /dev/null 2>&1 || sh deploy/examples/secrets.sh despatch nats | kubectl create -f -

# Postgres.
chart cnpg cloudnative-pg https://cloudnative-pg.github.io/charts cnpg-system --wait
kubectl apply -f deploy/examples/cloudnative-pg/cluster.yaml

# NATS.
chart nats nats https://nats-io.github.io/k8s/helm/charts nats -f deploy/examples/nats/values.yaml

# Vault: initialised and unsealed with one key. In production use an automatic unseal instead.
chart vault vault https://helm.releases.hashicorp.com vault -f deploy/examples/vault/values.yaml
vault() { kubectl -n vault exec vault-0 -- vault "$@"; }
# Prints true or false, and nothing before Vault answers. `vault status` fails of a sealed Vault, so its exit code says little.
initialized() { vault status -format=json 2> /dev/null | jq -r .initialized 2> /dev/null || true; }
answers() { [ -n "$(initialized)" ]; }
within 300 answers
case $(initialized) in
  false)
    # An empty file has no keys to lose.
    [ ! -s vault-keys.json ] || refuse 'Vault is not initialised, so vault-keys.json is of another one: move it away, then run this again.'
    vault operator init -key-shares=1 -key-threshold=1 -format=json > vault-keys.json.new
    mv vault-keys.json.new vault-keys.json
    ;;
  true) [ -s vault-keys.json ] || refuse 'Vault is initialised, and its keys are not here: put vault-keys.json into this folder, then run this again.' ;;
  *) refuse 'Vault does not say whether it is initialised.' ;;
esac
vault operator unseal "$(jq -r '.unseal_keys_b64[0]' vault-keys.json)"
kubectl -n vault wait pod/vault-0 --for=condition=Ready --timeout=2m
kubectl -n vault port-forward service/vault 8200 > /dev/null &
forward=$!
trap 'kill $forward 2> /dev/null || true' EXIT
reachable() {
  kill -0 $forward 2> /dev/null || refuse 'kubectl port-forward has ended: is port 8200 of this machine taken?'
  curl -sS --max-time 5 --cacert backends-ca.crt https://127.0.0.1:8200/v1/sys/health > /dev/null 2>&1
}
within 60 reachable
NODE_EXTRA_CA_CERTS=$PWD/backends-ca.crt VAULT_ADDR=https://127.0.0.1:8200 VAULT_TOKEN=$(jq -r .root_token vault-keys.json) \
  node deploy/run.mjs deploy/vault/setup-kubernetes.ts --kubernetes-host https://kubernetes.default.svc

kubectl -n despatch wait cluster/despatch-db --for=condition=Ready --timeout=10m
kubectl -n nats rollout status statefulset/nats --timeout=5m
