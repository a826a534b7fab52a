//go:build tools

// Package kubeapiserver pins the Kubernetes API server that the tests build.
package kubeapiserver

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
