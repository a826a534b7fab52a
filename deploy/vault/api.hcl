# The api encrypts provider secrets and can never decrypt them.

# Only `update`: with `create`, Vault would create a missing key by itself, with the wrong type.
path "transit/encrypt/despatch-*" {
  capabilities = ["update"]
}

# To create the key of a new tenant. `+` matches one segment, so a key's config, rotation and deletion are out of reach; the
# parameters allow no other kind of key, and an existing key stays as it is. A prefix cannot be combined with `+`, and `despatch-*`
# would grant the rotation of keys too, so this path also allows to create keys of other names on this mount, never to use them.
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
