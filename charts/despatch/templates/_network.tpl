{{/* Port of a URL: its own, or the scheme's default. Takes `url` and `default`. */}}
{{- define "despatch.portOf" -}}
{{- $host := get (urlParse .url) "host" -}}
{{- $port := regexFind ":[0-9]+$" $host | trimPrefix ":" -}}
{{- default .default $port -}}
{{- end -}}

{{- define "despatch.httpPortOf" -}}
{{- include "despatch.portOf" (dict "url" . "default" (hasPrefix "https:" . | ternary "443" "80")) -}}
{{- end -}}

{{/* Port of a name server: "address", "address:port" or "[address]:port". */}}
{{- define "despatch.dnsPortOf" -}}
{{- regexFind "(\\]|^[^:]*):[0-9]+$" . | regexFind "[0-9]+$" | default "53" -}}
{{- end -}}

{{/* One egress rule. Takes `ports`, a list, and `to`, empty for anywhere. */}}
{{- define "despatch.egressRule" -}}
- ports:
    {{- range .ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "despatch.egress.dns" -}}
- ports:
    {{- range .root.Values.networkPolicy.dnsPorts }}
    - {protocol: UDP, port: {{ . | int64 }}}
    - {protocol: TCP, port: {{ . | int64 }}}
    {{- end }}
  {{- with .root.Values.networkPolicy.dnsTo }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "despatch.egress.postgres" -}}
{{- with .root.Values.networkPolicy.postgres -}}
{{- include "despatch.egressRule" (dict "ports" .ports "to" .to) -}}
{{- end -}}
{{- end -}}

{{/* Egress rules for the dependencies of every service: name servers, Postgres, NATS, Vault, the trace collector. */}}
{{- define "despatch.egress.common" -}}
{{- $v := .root.Values -}}
{{ include "despatch.egress.dns" . }}
{{ include "despatch.egress.postgres" . }}
{{- $ports := list -}}
{{- range $v.nats.urls }}{{ $ports = append $ports (include "despatch.portOf" (dict "url" . "default" "4222")) }}{{ end }}
{{- if $ports }}
{{ include "despatch.egressRule" (dict "ports" (default (uniq $ports) $v.networkPolicy.nats.ports) "to" $v.networkPolicy.nats.to) }}
{{- end }}
{{- with $v.vault.address }}
{{ include "despatch.egressRule" (dict "ports" (default (list (include "despatch.httpPortOf" .)) $v.networkPolicy.vault.ports) "to" $v.networkPolicy.vault.to) }}
{{- end }}
{{- with $v.tracing.otlpEndpoint }}
{{ include "despatch.egressRule" (dict "ports" (default (list (include "despatch.httpPortOf" .)) $v.networkPolicy.otlp.ports) "to" $v.networkPolicy.otlp.to) }}
{{- end }}
{{- end -}}

{{- define "despatch.egress.api" -}}
{{ include "despatch.egress.common" . }}
{{- $oidc := .root.Values.api.oidc -}}
{{- $ports := list -}}
{{- range compact (list $oidc.issuer $oidc.jwksUrl) }}{{ $ports = append $ports (include "despatch.httpPortOf" .) }}{{ end }}
{{- if $ports }}
{{ include "despatch.egressRule" (dict "ports" (default (uniq $ports) .root.Values.networkPolicy.oidc.ports) "to" .root.Values.networkPolicy.oidc.to) }}
{{- end }}
{{- end -}}

{{/* Ports on the internet that the worker connects to: those of providers and of webhook endpoints. */}}
{{- define "despatch.egress.worker.ports" -}}
{{- $webhooks := .webhooks -}}
{{- $ports := list -}}
{{- range concat .worker.egress.ports (list 443) (ternary (list 80) (list) $webhooks.allowHttp) $webhooks.ports -}}
{{- $ports = append $ports (. | int64 | toString) -}}
{{- end -}}
{{- uniq $ports | join "," -}}
{{- end -}}

{{- define "despatch.egress.worker" -}}
{{- $egress := .root.Values.worker.egress -}}
{{ include "despatch.egress.common" . }}
{{- $except4 := list -}}
{{- $except6 := list -}}
{{- range $egress.exceptCidrs -}}
{{- if contains ":" . }}{{ $except6 = append $except6 . }}{{ else }}{{ $except4 = append $except4 . }}{{ end -}}
{{- end }}
# Providers: the internet without the excepted ranges, because a public name could resolve to a private address.
- ports:
    {{- range splitList "," (include "despatch.egress.worker.ports" .root.Values) }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  to:
    - ipBlock:
        cidr: 0.0.0.0/0
        {{- with $except4 }}
        except:
          {{- toYaml . | nindent 10 }}
        {{- end }}
    - ipBlock:
        cidr: ::/0
        {{- with $except6 }}
        except:
          {{- toYaml . | nindent 10 }}
        {{- end }}
{{- with $egress.allowCidrs }}
- to:
    {{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
{{- end }}
{{- range $egress.dnsServers }}
- ports:
    {{- $port := include "despatch.dnsPortOf" . }}
    - {protocol: UDP, port: {{ $port }}}
    - {protocol: TCP, port: {{ $port }}}
{{- end }}
{{- end -}}

{{- define "despatch.egress.controller" -}}
{{- $kubernetes := .root.Values.networkPolicy.kubernetes -}}
{{ include "despatch.egress.common" . }}
{{ include "despatch.egressRule" (dict "ports" $kubernetes.ports "to" $kubernetes.to) }}
{{- end -}}

{{- define "despatch.egress.migrate" -}}
{{ include "despatch.egress.dns" . }}
{{ include "despatch.egress.postgres" . }}
{{- end -}}

{{/* A component's NetworkPolicy. Takes `root` and `component`. */}}
{{- define "despatch.networkPolicy" -}}
{{- $own := index .root.Values .component -}}
{{- if and $own.enabled .root.Values.networkPolicy.enabled -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "despatch.metadata" (dict "root" .root "component" .component "name" (printf "%s-%s" (include "despatch.fullname" .root) .component)) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "despatch.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    {{- if eq .component "api" }}
    - ports:
        - {protocol: TCP, port: http}
      {{- with .root.Values.networkPolicy.apiFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    - ports:
        - {protocol: TCP, port: metrics}
      from:
        {{- default (list (dict "namespaceSelector" (dict))) .root.Values.networkPolicy.metricsFrom | toYaml | nindent 8 }}
    {{- if .root.Values.tests.enabled }}
    # The pod of `helm test`.
    - ports:
        {{- if eq .component "api" }}
        - {protocol: TCP, port: http}
        {{- end }}
        - {protocol: TCP, port: metrics}
      from:
        - podSelector:
            matchLabels:
              {{- include "despatch.selectorLabels" (dict "root" .root "component" "test") | nindent 14 }}
    {{- end }}
    {{- with $own.networkPolicy.ingress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  egress:
    {{- include (printf "despatch.egress.%s" .component) . | nindent 4 }}
    {{- with $own.networkPolicy.egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
{{- end -}}
