{{/* Paths of the required values that are empty, each with its meaning. One per line. */}}
{{- define "despatch.missing" -}}
{{- $v := .Values -}}
{{- $wanted := list
  (list "image.repository" $v.image.repository "where your build of deploy/Dockerfile is") -}}
{{- $anyService := or $v.api.enabled $v.worker.enabled $v.controller.enabled -}}
{{- $dev := $v.dev.enabled -}}
{{- $migrationAlone := and (not $anyService) $v.migrations.existingSecret -}}
{{- if not (or $dev $migrationAlone) -}}
{{- $wanted = append $wanted (list "postgres.existingSecret" $v.postgres.existingSecret "Secret with a connection string per service") -}}
{{- end -}}
{{- if $anyService -}}
{{- $wanted = append $wanted (list "nats.urls" $v.nats.urls "servers of one NATS cluster") -}}
{{- if and (has $v.nats.auth.method (list "userpass" "creds")) (not $dev) -}}
{{- $wanted = append $wanted (list "nats.auth.existingSecret" $v.nats.auth.existingSecret "Secret with a password or credentials file per service") -}}
{{- end -}}
{{- $wanted = append $wanted (list "vault.address" $v.vault.address "address of HashiCorp Vault") -}}
{{- if and (eq $v.vault.auth.method "approle") (not $dev) -}}
{{- $wanted = append $wanted (list "vault.auth.approle.existingSecret" $v.vault.auth.approle.existingSecret "Secret with a secret id per service") -}}
{{- end -}}
{{- if and (eq $v.vault.auth.method "token") (not $dev) -}}
{{- $wanted = append $wanted (list "vault.auth.token.existingSecret" $v.vault.auth.token.existingSecret "Secret with a token per service") -}}
{{- end -}}
{{- end -}}
{{- range $component := list "api" "worker" "controller" -}}
{{- if (index $v $component).enabled -}}
{{- if eq $v.nats.auth.method "tls" -}}
{{- $wanted = append $wanted (list (printf "nats.tls.clientSecrets.%s" $component) (index $v.nats.tls.clientSecrets $component) "Secret with its client certificate") -}}
{{- end -}}
{{- if eq $v.vault.auth.method "approle" -}}
{{- $wanted = append $wanted (list (printf "vault.auth.approle.roleIds.%s" $component) (index $v.vault.auth.approle.roleIds $component) "its role id") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if or $v.api.enabled $v.controller.enabled -}}
{{- $wanted = append $wanted (list "api.oidc.issuer" $v.api.oidc.issuer "issuer of sign-in tokens") -}}
{{- end -}}
{{- if $v.api.enabled -}}
{{- $wanted = concat $wanted (list
  (list "api.publicBaseUrl" $v.api.publicBaseUrl "base URL that clients use")
  (list "api.oidc.audience" $v.api.oidc.audience "the api's name in those tokens")) -}}
{{- if not $dev -}}
{{- $wanted = append $wanted (list "api.keyPepper.existingSecret" $v.api.keyPepper.existingSecret "Secret with the pepper of the service keys") -}}
{{- end -}}
{{- end -}}
{{- if and (or $v.api.enabled $v.worker.enabled) (not $dev) -}}
{{- $wanted = append $wanted (list "receipts.pepper.existingSecret" $v.receipts.pepper.existingSecret "Secret with the pepper of receipt URLs") -}}
{{- end -}}
{{- if $v.worker.keda.enabled -}}
{{- if eq $v.worker.keda.trigger "prometheus" -}}
{{- $wanted = append $wanted (list "worker.keda.prometheus.serverAddress" $v.worker.keda.prometheus.serverAddress "address of Prometheus") -}}
{{- else -}}
{{- $wanted = append $wanted (list "worker.keda.natsJetstream.monitoringEndpoint" $v.worker.keda.natsJetstream.monitoringEndpoint "monitoring endpoint of NATS") -}}
{{- end -}}
{{- end -}}
{{- if and $v.tests.enabled $v.tests.canary.enabled -}}
{{- $wanted = append $wanted (list "tests.canary.existingSecret" $v.tests.canary.existingSecret "Secret with a service key") -}}
{{- end -}}
{{- if and $v.api.enabled $v.api.httpRoute.enabled -}}
{{- $wanted = append $wanted (list "api.httpRoute.parentRefs" $v.api.httpRoute.parentRefs "gateways that serve the route") -}}
{{- end -}}
{{- /* Policies are additive: one rule without a destination opens its port to every address, including private ones. */}}
{{- with $v.networkPolicy -}}
{{- if .enabled -}}
{{- if or $anyService (ne $v.migrations.mode "none") -}}
{{- $wanted = append $wanted (list "networkPolicy.postgres.to" .postgres.to "where Postgres is, as peers of a NetworkPolicy") -}}
{{- end -}}
{{- if $anyService -}}
{{- $wanted = concat $wanted (list
  (list "networkPolicy.nats.to" .nats.to "where NATS is")
  (list "networkPolicy.vault.to" .vault.to "where Vault is")) -}}
{{- if $v.tracing.otlpEndpoint -}}
{{- $wanted = append $wanted (list "networkPolicy.otlp.to" .otlp.to "where the collector of traces is") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $wanted -}}
{{- if not (index . 1) }}
{{ index . 0 }}: {{ index . 2 }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Seconds that a component needs to shut down: pre-stop sleep, its own waits, and closing its connections. */}}
{{- define "despatch.secondsToEnd" -}}
{{- $own := index .Values .component -}}
{{- $waitMs := eq .component "api" | ternary (int64 (default 0 $own.shutdownDelayMs)) (int64 (default 0 $own.shutdownGraceMs)) -}}
{{- /* Requests get 15 s; a worker's consumer gets 2 s; closing takes up to 10 s. */}}
{{- $fixed := dict "api" 25 "worker" 12 "controller" 10 -}}
{{- add (int64 $own.lifecycle.preStopSleepSeconds) (ceil (divf $waitMs 1000)) (index $fixed .component) -}}
{{- end -}}

{{/* Values that contradict each other, one per line. */}}
{{- define "despatch.contradictions" -}}
{{- $v := .Values -}}
{{- range $component := list "api" "worker" "controller" -}}
{{- $own := index $v $component -}}
{{- if $own.enabled -}}
{{- $needed := include "despatch.secondsToEnd" (dict "Values" $v "component" $component) | int64 -}}
{{- if lt (int64 $own.terminationGracePeriodSeconds) $needed }}
{{ $component }}.terminationGracePeriodSeconds: must be at least {{ $needed }}, the time that it takes to end with these settings
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.worker.autoscaling.enabled $v.worker.keda.enabled }}
worker.autoscaling.enabled and worker.keda.enabled: set one of them
{{- end -}}
{{- if lt (int64 $v.worker.leaseMs) (mul 2 (int64 $v.worker.providerDeadlineMs)) }}
worker.leaseMs: must be at least twice worker.providerDeadlineMs
{{- end -}}
{{- if $v.networkPolicy.enabled -}}
{{- range $server := $v.worker.egress.dnsServers -}}
{{- $port := include "despatch.dnsPortOf" $server -}}
{{- $others := concat (list "80" "443") (splitList "," (include "despatch.egress.worker.ports" $v)) -}}
{{- if has $port $others }}
worker.egress.dnsServers: {{ $server }} would open port {{ $port }} to every address, as name servers may be behind any
{{- end -}}
{{- end -}}
{{- end -}}
{{- if lt (int64 $v.worker.shutdownGraceMs) (int64 $v.worker.providerDeadlineMs) }}
worker.shutdownGraceMs: must be at least worker.providerDeadlineMs, or calls under way end without a known outcome
{{- end -}}
{{- if gt (int64 $v.api.http.headersTimeoutMs) (int64 $v.api.http.requestTimeoutMs) }}
api.http.headersTimeoutMs: must be at most api.http.requestTimeoutMs
{{- end -}}
{{- if and (not $v.controller.leaderElection.enabled) (ne (toString $v.controller.replicas) "1") (ne (toString $v.controller.replicas) "0") }}
controller.leaderElection.enabled: must be true with more than one pod
{{- end -}}
{{- with $v.controller.leaderElection -}}
{{- if not (and (lt (mul 12 (int64 .retryPeriodSeconds)) (mul 10 (int64 .renewDeadlineSeconds))) (lt (int64 .renewDeadlineSeconds) (int64 .leaseDurationSeconds))) }}
controller.leaderElection: retryPeriodSeconds must be well below renewDeadlineSeconds, and that less than leaseDurationSeconds
{{- end -}}
{{- end -}}
{{- if and $v.monitoring.serviceMonitor.enabled $v.monitoring.podMonitor.enabled }}
monitoring.serviceMonitor.enabled and monitoring.podMonitor.enabled: set one of them
{{- end -}}
{{- range $component := list "api" "worker" -}}
{{- $scaling := (index $v $component).autoscaling -}}
{{- if and $scaling.enabled (gt (int64 $scaling.minReplicas) (int64 $scaling.maxReplicas)) }}
{{ $component }}.autoscaling.minReplicas: must be at most maxReplicas
{{- end -}}
{{- end -}}
{{- if and $v.worker.keda.enabled (gt (int64 $v.worker.keda.minReplicas) (int64 $v.worker.keda.maxReplicas)) }}
worker.keda.minReplicas: must be at most maxReplicas
{{- end -}}
{{- if $v.api.enabled -}}
{{- $service := $v.api.service -}}
{{- range $name := list "nodePort" "externalTrafficPolicy" -}}
{{- if and (index $service $name) (eq $service.type "ClusterIP") }}
api.service.{{ $name }}: only for the types NodePort and LoadBalancer
{{- end -}}
{{- end -}}
{{- range $name := list "loadBalancerClass" "loadBalancerSourceRanges" -}}
{{- if and (index $service $name) (ne $service.type "LoadBalancer") }}
api.service.{{ $name }}: only for the type LoadBalancer
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.tests.canary.enabled (not $v.api.enabled) }}
tests.canary.enabled: needs api.enabled
{{- end -}}
{{- end -}}
