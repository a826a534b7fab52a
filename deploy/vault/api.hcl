# The api turns provider secrets into ciphertexts and can never turn them back.

# Only `update`: with `create`, Vault would make a missing key by itself, with the wrong type.
path "transit/encrypt/despatch-*" {
  capabilities = ["update"]
}

# Making the key of a new tenant. `+` is one segment, so that no key's config, rotation or deletion is within reach; the
# parameters allow no other kind of key, and a key that exists is left as it is.
path "transit/keys/+" {
  capabilities = ["create", "update"]
  required_parameters = ["type", "derived", "exportable", "convergent_encryption"]
  allowed_parameters = {
    "type"                  = ["aes256-gcm96"]
    "derived"               = [true]
    "exportable"            = [false]
    "convergent_encryption" = [false]
  }
}
