{{/*
Environment and files of the services. Settings are part of the pod template: a change replaces the pods, and a pod
that restarts during an upgrade keeps its old settings. Secrets are files below this folder.
*/}}
{{- define "despatch.credentialsFolder" -}}/etc/despatch{{- end -}}

{{- define "despatch.env.tenantMetrics" -}}
METRICS_TENANTS_MAX: {{ .root.Values.monitoring.tenantsMax | int64 | quote }}
{{- end -}}

{{/* Variables of every service, as a map. */}}
{{- define "despatch.env.common" -}}
DESPATCH_ENV: {{ ternary "development" "production" .root.Values.dev.enabled }}
LOG_LEVEL: {{ .root.Values.logging.level | quote }}
METRICS_HOST: {{ .root.Values.listenAddress | quote }}
METRICS_PORT: "9090"
{{- with .root.Values.tracing.otlpEndpoint }}
OTEL_EXPORTER_OTLP_ENDPOINT: {{ . | quote }}
{{- end }}
OTEL_TRACES_SAMPLE_RATIO: {{ .root.Values.tracing.sampleRatio | quote }}
{{- end -}}

{{- define "despatch.env.database" -}}
{{- $folder := include "despatch.credentialsFolder" . -}}
DATABASE_URL_FILE: {{ $folder }}/database-url
{{- if .root.Values.postgres.ssl.caSecret }}
DATABASE_CA_FILE: {{ $folder }}/postgres-ca.crt
{{- end }}
{{- end -}}

{{- define "despatch.env.postgres" -}}
{{ include "despatch.env.database" . }}
DATABASE_POOL_MAX: {{ .root.Values.postgres.pool.max | int64 | quote }}
DATABASE_STATEMENT_TIMEOUT_MS: {{ .root.Values.postgres.statementTimeoutMs | int64 | quote }}
{{- end -}}

{{- define "despatch.env.nats" -}}
{{- $folder := include "despatch.credentialsFolder" . -}}
{{- $nats := .root.Values.nats -}}
NATS_URL: {{ join "," $nats.urls | quote }}
NATS_PREFIX: {{ $nats.jetstream.streamPrefix | quote }}
NATS_REPLICAS: {{ $nats.jetstream.replicas | int64 | quote }}
{{- if eq $nats.auth.method "userpass" }}
NATS_USER: {{ index $nats.auth.users .component | quote }}
NATS_PASSWORD_FILE: {{ $folder }}/nats-password
{{- else if eq $nats.auth.method "creds" }}
NATS_CREDS_FILE: {{ $folder }}/nats.creds
{{- end }}
{{- if $nats.tls.caSecret }}
NATS_CA_FILE: {{ $folder }}/nats-ca.crt
{{- end }}
{{- if index $nats.tls.clientSecrets .component }}
NATS_CERT_FILE: {{ $folder }}/nats-client.crt
NATS_KEY_FILE: {{ $folder }}/nats-client.key
{{- end }}
{{- end -}}

{{- define "despatch.env.vault" -}}
{{- $folder := include "despatch.credentialsFolder" . -}}
{{- $vault := .root.Values.vault -}}
KEYRING: vault
VAULT_ADDR: {{ $vault.address | quote }}
{{- with $vault.namespace }}
VAULT_NAMESPACE: {{ . | quote }}
{{- end }}
{{- if $vault.caSecret }}
VAULT_CA_FILE: {{ $folder }}/vault-ca.crt
{{- end }}
VAULT_TRANSIT_MOUNT: {{ $vault.transitMount | quote }}
VAULT_KEY_PREFIX: {{ $vault.keyPrefix | quote }}
VAULT_AUTH_METHOD: {{ $vault.auth.method }}
{{- if eq $vault.auth.method "kubernetes" }}
VAULT_KUBERNETES_MOUNT: {{ $vault.auth.kubernetes.mountPath | quote }}
VAULT_KUBERNETES_TOKEN_FILE: {{ $folder }}/vault-login-token
VAULT_ROLE: {{ index $vault.auth.kubernetes.roles .component | quote }}
{{- else if eq $vault.auth.method "approle" }}
VAULT_APPROLE_MOUNT: {{ $vault.auth.approle.mountPath | quote }}
VAULT_ROLE_ID: {{ index $vault.auth.approle.roleIds .component | quote }}
VAULT_SECRET_ID_FILE: {{ $folder }}/vault-secret-id
{{- else }}
VAULT_TOKEN_FILE: {{ $folder }}/vault-token
{{- end }}
{{- end -}}

{{- define "despatch.env.receipts" -}}
PUBLIC_BASE_URL: {{ .root.Values.api.publicBaseUrl | quote }}
RECEIPT_PEPPER_FILE: {{ include "despatch.credentialsFolder" . }}/receipt-pepper
{{- end -}}

{{- define "despatch.env.webhooks" -}}
EGRESS_ALLOW_CIDRS: {{ join "," .root.Values.worker.egress.allowCidrs | quote }}
WEBHOOK_ALLOW_HTTP: {{ .root.Values.webhooks.allowHttp | quote }}
WEBHOOK_PORTS: {{ join "," .root.Values.webhooks.ports | quote }}
{{- end -}}

{{- define "despatch.env.api" -}}
{{- $api := .root.Values.api -}}
{{ include "despatch.env.common" . }}
{{ include "despatch.env.tenantMetrics" . }}
{{ include "despatch.env.postgres" . }}
{{ include "despatch.env.nats" . }}
{{ include "despatch.env.vault" . }}
{{ include "despatch.env.receipts" . }}
{{ include "despatch.env.webhooks" . }}
DATABASE_READ_POOL_MAX: {{ $api.reads.poolMax | int64 | quote }}
DATABASE_READ_TIMEOUT_MS: {{ $api.reads.timeoutMs | int64 | quote }}
DATABASE_CHANGE_POOL_MAX: {{ $api.changes.poolMax | int64 | quote }}
HOST: {{ .root.Values.listenAddress | quote }}
PORT: "8080"
TRUST_PROXY_CIDRS: {{ join "," $api.trustProxyCidrs | quote }}
HEADERS_TIMEOUT_MS: {{ $api.http.headersTimeoutMs | int64 | quote }}
REQUEST_TIMEOUT_MS: {{ $api.http.requestTimeoutMs | int64 | quote }}
BODY_BYTES_PER_SECOND_MIN: {{ $api.http.bodyBytesPerSecondMin | int64 | quote }}
REQUEST_MEMORY_BYTES_MAX: {{ $api.http.requestMemoryBytesMax | int64 | quote }}
CONNECTIONS_MAX: {{ $api.http.connectionsMax | int64 | quote }}
EVENT_LOOP_DELAY_MAX_MS: {{ $api.http.eventLoopDelayMaxMs | int64 | quote }}
SHUTDOWN_DELAY_MS: {{ $api.shutdownDelayMs | int64 | quote }}
KEY_PEPPER_FILE: {{ include "despatch.credentialsFolder" . }}/key-pepper
OIDC_ISSUER: {{ $api.oidc.issuer | quote }}
OIDC_AUDIENCE: {{ $api.oidc.audience | quote }}
OIDC_JWKS_URL: {{ $api.oidc.jwksUrl | quote }}
OIDC_ALGORITHMS: {{ join "," $api.oidc.algorithms | quote }}
OIDC_TOKEN_TYPES: {{ join "," $api.oidc.tokenTypes | quote }}
PLATFORM_ADMINS: {{ join "," $api.platformAdmins | quote }}
SELF_SERVE_TENANTS: {{ $api.selfServeTenants.enabled | quote }}
SELF_SERVE_TENANTS_MAX: {{ $api.selfServeTenants.maxPerUser | int64 | quote }}
{{- end -}}

{{- define "despatch.env.worker" -}}
{{- $worker := .root.Values.worker -}}
{{- $baseUrls := list -}}
{{- range $id, $origin := $worker.egress.providerBaseUrls }}{{ $baseUrls = append $baseUrls (printf "%s=%s" $id $origin) }}{{ end -}}
{{ include "despatch.env.common" . }}
{{ include "despatch.env.tenantMetrics" . }}
{{ include "despatch.env.postgres" . }}
{{ include "despatch.env.nats" . }}
{{ include "despatch.env.vault" . }}
{{ include "despatch.env.receipts" . }}
{{ include "despatch.env.webhooks" . }}
IN_FLIGHT_MAX: {{ $worker.inFlightMax | int64 | quote }}
QUEUED_PER_TENANT_MAX: {{ $worker.queuedPerTenantMax | int64 | quote }}
QUEUED_MAX: {{ $worker.queuedMax | int64 | quote }}
PROVIDER_DEADLINE_MS: {{ $worker.providerDeadlineMs | int64 | quote }}
LEASE_MS: {{ $worker.leaseMs | int64 | quote }}
WEBHOOKS_IN_FLIGHT_MAX: {{ $worker.webhooksInFlightMax | int64 | quote }}
WEBHOOK_DEADLINE_MS: {{ $worker.webhookDeadlineMs | int64 | quote }}
SWEEP_INTERVAL_MS: {{ $worker.sweepIntervalMs | int64 | quote }}
LARGE_CONTENT_BYTES_MAX: {{ $worker.largeContentBytesMax | int64 | quote }}
CREDENTIALS_CACHE_MAX: {{ $worker.credentials.cacheMax | int64 | quote }}
CREDENTIALS_TTL_SECONDS: {{ $worker.credentials.ttlSeconds | int64 | quote }}
SHUTDOWN_GRACE_MS: {{ $worker.shutdownGraceMs | int64 | quote }}
EGRESS_DNS_SERVERS: {{ join "," $worker.egress.dnsServers | quote }}
PROVIDER_BASE_URLS: {{ join "," $baseUrls | quote }}
{{- end -}}

{{- define "despatch.env.controller" -}}
{{- $controller := .root.Values.controller -}}
{{ include "despatch.env.common" . }}
{{ include "despatch.env.postgres" . }}
{{ include "despatch.env.nats" . }}
{{ include "despatch.env.vault" . }}
CONTROLLER_NAME: {{ include "despatch.controllerName" .root | quote }}
WATCH_NAMESPACES: {{ join "," $controller.watchNamespaces | quote }}
OIDC_ISSUER: {{ .root.Values.api.oidc.issuer | quote }}
LEADER_ELECTION: {{ $controller.leaderElection.enabled | quote }}
LEASE_NAME: {{ include "despatch.fullname" .root }}-controller
LEASE_DURATION_SECONDS: {{ $controller.leaderElection.leaseDurationSeconds | int64 | quote }}
LEASE_RENEW_DEADLINE_SECONDS: {{ $controller.leaderElection.renewDeadlineSeconds | int64 | quote }}
LEASE_RETRY_PERIOD_SECONDS: {{ $controller.leaderElection.retryPeriodSeconds | int64 | quote }}
RECONCILE_CONCURRENCY: {{ $controller.concurrency | int64 | quote }}
RESYNC_SECONDS: {{ $controller.resyncPeriodSeconds | int64 | quote }}
SHUTDOWN_GRACE_MS: {{ $controller.shutdownGraceMs | int64 | quote }}
{{- end -}}

{{- define "despatch.env.migrate" -}}
{{- $folder := include "despatch.credentialsFolder" . -}}
{{ include "despatch.env.database" . }}
{{- if .root.Values.migrations.rolePasswords.existingSecret }}
API_DATABASE_PASSWORD_FILE: {{ $folder }}/api-database-password
WORKER_DATABASE_PASSWORD_FILE: {{ $folder }}/worker-database-password
CONTROLLER_DATABASE_PASSWORD_FILE: {{ $folder }}/controller-database-password
{{- end }}
{{- end -}}

{{/* Variables from the pod itself: the lease holder's name, and the namespace of the lease and of events. */}}
{{- define "despatch.env.pod" -}}
{{- if eq .component "controller" }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- end }}
{{- end -}}

{{/*
The `env` list of a container: sorted, without empty entries. Entries of `extra` replace those with the same name, because
server-side apply refuses duplicate names. Takes `root`, `component` and `extra`.
*/}}
{{- define "despatch.env" -}}
{{- $replaced := dict -}}
{{- range .extra }}{{ $_ := set $replaced .name true }}{{ end -}}
{{- $entries := list -}}
{{- range fromYamlArray (include "despatch.env.pod" .) -}}
{{- if not (hasKey $replaced .name) }}{{ $entries = append $entries . }}{{ end -}}
{{- end -}}
{{- range $name, $value := fromYaml (include (printf "despatch.env.%s" .component) .) -}}
{{- $file := printf "%s_FILE" $name -}}
{{- $base := trimSuffix "_FILE" $name -}}
{{- if and (ne (toString $value) "") (not (hasKey $replaced $name)) (not (hasKey $replaced $file)) (not (hasKey $replaced $base)) -}}
{{- $entries = append $entries (dict "name" $name "value" (toString $value)) -}}
{{- end -}}
{{- end -}}
{{- concat $entries (default (list) .extra) | toYaml -}}
{{- end -}}

{{/* Sources of the single volume with a component's credentials: its own keys and no other component's. */}}
{{- define "despatch.credentials" -}}
{{- $v := .root.Values -}}
{{- $postgres := $v.postgres.existingSecret -}}
{{- if and (eq .component "migrate") $v.migrations.existingSecret }}{{ $postgres = $v.migrations.existingSecret }}{{ end -}}
- secret:
    name: {{ include "despatch.secretName" (dict "root" .root "name" $postgres) | quote }}
    items:
      - {key: {{ index $v.postgres.secretKeys .component | quote }}, path: database-url}
{{- with $v.postgres.ssl.caSecret }}
- secret:
    name: {{ . | quote }}
    items:
      - {key: {{ $v.postgres.ssl.caKey | quote }}, path: postgres-ca.crt}
{{- end }}
{{- if eq .component "migrate" }}
{{- with $v.migrations.rolePasswords }}
{{- if .existingSecret }}
- secret:
    name: {{ .existingSecret | quote }}
    items:
      - {key: {{ .secretKeys.api | quote }}, path: api-database-password}
      - {key: {{ .secretKeys.worker | quote }}, path: worker-database-password}
      - {key: {{ .secretKeys.controller | quote }}, path: controller-database-password}
{{- end }}
{{- end }}
{{- else }}
{{- $component := .component }}
{{- with $v.nats }}
{{- if has .auth.method (list "userpass" "creds") }}
- secret:
    name: {{ include "despatch.secretName" (dict "root" $.root "name" .auth.existingSecret) | quote }}
    items:
      - {key: {{ index .auth.secretKeys $component | quote }}, path: {{ eq .auth.method "creds" | ternary "nats.creds" "nats-password" }}}
{{- end }}
{{- if .tls.caSecret }}
- secret:
    name: {{ .tls.caSecret | quote }}
    items:
      - {key: {{ .tls.caKey | quote }}, path: nats-ca.crt}
{{- end }}
{{- with index .tls.clientSecrets $component }}
- secret:
    name: {{ . | quote }}
    items:
      - {key: tls.crt, path: nats-client.crt}
      - {key: tls.key, path: nats-client.key}
{{- end }}
{{- end }}
{{- with $v.vault }}
{{- if .caSecret }}
- secret:
    name: {{ .caSecret | quote }}
    items:
      - {key: {{ .caKey | quote }}, path: vault-ca.crt}
{{- end }}
{{- if eq .auth.method "kubernetes" }}
- serviceAccountToken:
    audience: {{ .auth.kubernetes.audience | quote }}
    expirationSeconds: {{ .auth.kubernetes.expirationSeconds | int64 }}
    path: vault-login-token
{{- else if eq .auth.method "approle" }}
- secret:
    name: {{ include "despatch.secretName" (dict "root" $.root "name" .auth.approle.existingSecret) | quote }}
    items:
      - {key: {{ index .auth.approle.secretKeys $component | quote }}, path: vault-secret-id}
{{- else }}
- secret:
    name: {{ include "despatch.secretName" (dict "root" $.root "name" .auth.token.existingSecret) | quote }}
    items:
      - {key: {{ index .auth.token.secretKeys $component | quote }}, path: vault-token}
{{- end }}
{{- end }}
{{- end }}
{{- if eq .component "api" }}
- secret:
    name: {{ include "despatch.secretName" (dict "root" .root "name" $v.api.keyPepper.existingSecret) | quote }}
    items:
      - {key: {{ $v.api.keyPepper.key | quote }}, path: key-pepper}
{{- end }}
{{- if has .component (list "api" "worker") }}
- secret:
    name: {{ include "despatch.secretName" (dict "root" .root "name" $v.receipts.pepper.existingSecret) | quote }}
    items:
      - {key: {{ $v.receipts.pepper.key | quote }}, path: receipt-pepper}
{{- end }}
{{- end -}}
