{{/* Values that users of other charts try first, and values that have moved: the key, and what to use instead. */}}
{{- define "despatch.movedValues" -}}
installCRDs: use crds.enabled
replicaCount: use api.replicas, worker.replicas and controller.replicas
autoscaling: use api.autoscaling, worker.autoscaling or worker.keda
ingress: use api.ingress or api.httpRoute
service: use api.service
resources: use api.resources, worker.resources and controller.resources
serviceAccount: use api.serviceAccount, worker.serviceAccount and controller.serviceAccount
serviceMonitor: use monitoring.serviceMonitor
prometheusRule: use monitoring.prometheusRule
postgresql: no Postgres comes with this chart; bring one as in deploy/examples/cloudnative-pg and name its Secret in postgres.existingSecret
{{- end -}}

{{/* One line per value that is set but not supported. */}}
{{- define "despatch.deprecations" -}}
{{- range $key, $instead := fromYaml (include "despatch.movedValues" .) -}}
{{- if hasKey $.Values $key }}
{{ $key }}: {{ $instead }}
{{- end -}}
{{- end -}}
{{- end -}}
