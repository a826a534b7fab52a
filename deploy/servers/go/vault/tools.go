//go:build tools

// Package vault pins the HashiCorp Vault server that the quick start and the tests build.
package vault

import _ "github.com/hashicorp/vault"
