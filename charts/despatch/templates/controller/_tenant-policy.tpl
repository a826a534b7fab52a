{{/* CEL: whether the requesting user is in these lists. Takes `users`, `groups` and `serviceAccounts`. */}}
{{- define "despatch.isAmong" -}}
{{- $users := default (list) .users -}}
{{- range .serviceAccounts }}{{ $users = append $users (printf "system:serviceaccount:%s" (replace "/" ":" .)) }}{{ end -}}
(request.userInfo.username in {{ toJson $users }} || request.userInfo.groups.exists(g, g in {{ toJson (default (list) .groups) }}))
{{- end -}}

{{/* CEL: whether the requesting user may choose the plan. */}}
{{- define "despatch.mayNamePlan" -}}
variables.plan in {{ toJson .openPlans }}
{{- range .plans -}}
{{- if has "*" .names }} || {{ include "despatch.isAmong" . }}
{{- else }} || (variables.plan in {{ toJson .names }} && {{ include "despatch.isAmong" . }})
{{- end -}}
{{- end -}}
{{- end -}}
