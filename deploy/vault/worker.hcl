# The worker decrypts provider secrets and cannot encrypt any.
path "transit/decrypt/despatch-*" {
  capabilities = ["update"]
}
