# The worker opens provider secrets and can make none.
path "transit/decrypt/despatch-*" {
  capabilities = ["update"]
}
