//go:build tools

// Package helm pins the Helm that the chart's tests build.
package helm

import _ "helm.sh/helm/v4/cmd/helm"
