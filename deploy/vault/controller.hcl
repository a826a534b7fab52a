# The controller creates, rotates and destroys tenants' keys and moves ciphertexts to new key versions, without access to any
# plaintext: no encrypt, decrypt, export or backup.
path "transit/keys/despatch-*" {
  capabilities = ["create", "read", "update", "delete"]
}

path "transit/rewrap/despatch-*" {
  capabilities = ["update"]
}
