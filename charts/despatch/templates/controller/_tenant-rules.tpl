{{/* What the controller may do in each namespace whose Tenants it reconciles. */}}
{{- define "despatch.tenantRules" -}}
# Only its finalizer is patched on a Tenant itself; what it finds goes to the status.
- apiGroups: [despatch.dev]
  resources: [tenants]
  verbs: [get, list, watch, patch]
- apiGroups: [despatch.dev]
  resources: [tenants/status]
  verbs: [patch]
{{ include "despatch.eventRules" . }}
{{- end -}}

{{/* What it takes to tell of events: applying one makes it, or counts on. */}}
{{- define "despatch.eventRules" -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
