{{/* Rights of the controller in each namespace whose Tenants it reconciles. */}}
{{- define "despatch.tenantRules" -}}
# The controller patches only its finalizer on a Tenant; its findings are written to the status.
- apiGroups: [despatch.dev]
  resources: [tenants]
  verbs: [get, list, watch, patch]
- apiGroups: [despatch.dev]
  resources: [tenants/status]
  verbs: [patch]
{{ include "despatch.eventRules" . }}
{{- end -}}

{{/* Rights to record events: an apply creates an event or updates its count. */}}
{{- define "despatch.eventRules" -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
