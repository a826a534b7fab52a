{{/* Whether the one who asks is among these, in CEL. Takes `users`, `groups` and `serviceAccounts`. */}}
{{- define "despatch.isAmong" -}}
{{- $users := default (list) .users -}}
{{- range .serviceAccounts }}{{ $users = append $users (printf "system:serviceaccount:%s" (replace "/" ":" .)) }}{{ end -}}
(request.userInfo.username in {{ toJson $users }} || request.userInfo.groups.exists(g, g in {{ toJson (default (list) .groups) }}))
{{- end -}}

{{/* Whether the plan may be named by the one who asks, in CEL. */}}
{{- define "despatch.mayNamePlan" -}}
variables.plan in {{ toJson .openPlans }}
{{- range .plans -}}
{{- if has "*" .names }} || {{ include "despatch.isAmong" . }}
{{- else }} || (variables.plan in {{ toJson .names }} && {{ include "despatch.isAmong" . }})
{{- end -}}
{{- end -}}
{{- end -}}
