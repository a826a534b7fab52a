//go:build tools

// Package natsserver pins the NATS server that the quick start and the tests build.
package natsserver

import _ "github.com/nats-io/nats-server/v2"
