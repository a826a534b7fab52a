//go:build tools

// Package etcd pins the etcd server that the tests build.
package etcd

import _ "go.etcd.io/etcd/server/v3"
