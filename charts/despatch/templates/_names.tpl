{{- define "despatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Prefix of all names. 44 characters leave room for `-controller-metrics` and the hash of a migration. */}}
{{- define "despatch.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 44 | trimSuffix "-" -}}
{{- else if contains (include "despatch.name" .) .Release.Name -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "despatch.name" .) | trunc 44 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "despatch.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* Prefix of cluster-scoped names: a namespace contains no dot, so no two releases have the same prefix. */}}
{{- define "despatch.clusterName" -}}
{{- printf "%s.%s" (include "despatch.namespace" .) (include "despatch.fullname" .) -}}
{{- end -}}

{{/* Marks the Plans that this release uses. At most 50 characters, and different for every release of a cluster. */}}
{{- define "despatch.controllerName" -}}
{{- $name := include "despatch.clusterName" . -}}
{{- if .Values.controller.name -}}
{{- .Values.controller.name -}}
{{- else if le (len $name) 50 -}}
{{- $name -}}
{{- else -}}
{{- printf "%s-%s" ($name | trunc 41) ($name | sha256sum | trunc 8) -}}
{{- end -}}
{{- end -}}

{{/* Labels of every object of the release. */}}
{{- define "despatch.labels" -}}
{{- $own := dict
    "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
    "app.kubernetes.io/name" (include "despatch.name" .)
    "app.kubernetes.io/instance" .Release.Name
    "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_" | trunc 63)
    "app.kubernetes.io/managed-by" .Release.Service
    "app.kubernetes.io/part-of" "despatch" -}}
{{- merge $own (deepCopy (default (dict) .Values.commonLabels)) (deepCopy (default (dict) .Values.global.commonLabels)) | toYaml -}}
{{- end -}}

{{/* Labels that select a component's pods. Takes `root` and `component`. */}}
{{- define "despatch.selectorLabels" -}}
app.kubernetes.io/name: {{ include "despatch.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/*
Metadata of an object. Takes `root` and `name`, and may take `component`, `labels`, `annotations`, `namespace`, `cluster`
(true: it has no namespace) and `makesPods` (true: adds the scanner annotations that `annotations` does not replace; takes
`image` and `mountsToken` too).
*/}}
{{- define "despatch.metadata" -}}
{{- $labels := fromYaml (include "despatch.labels" .root) -}}
{{- with .component }}{{ $_ := set $labels "app.kubernetes.io/component" . }}{{ end -}}
{{- $annotations := merge (dict) (default (dict) .annotations) (default (dict) .root.Values.commonAnnotations) -}}
name: {{ .name | quote }}
{{- if not .cluster }}
namespace: {{ default (include "despatch.namespace" .root) .namespace | quote }}
{{- end }}
labels:
  {{- toYaml (merge $labels (default (dict) .labels)) | nindent 2 }}
{{- if or $annotations .makesPods }}
annotations:
  {{- if .makesPods }}
  {{- range splitList "\n" (include "despatch.scannerAnnotations" .) }}
  {{- if not (hasKey $annotations (splitList ":" . | first)) }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- end }}
  {{- end }}
  {{- with $annotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Name of a component's service account. Takes `root`, `component` and `account`, its values. */}}
{{- define "despatch.serviceAccountName" -}}
{{- $made := printf "%s-%s" (include "despatch.fullname" .root) .component -}}
{{- .account.create | ternary (default $made .account.name) (default "default" .account.name) -}}
{{- end -}}

{{/* Name of an existing Secret, or of the one that `dev` creates. Takes `root` and `name`. */}}
{{- define "despatch.secretName" -}}
{{- if .name -}}
{{- .name -}}
{{- else if .root.Values.dev.enabled -}}
{{- include "despatch.fullname" .root }}-dev
{{- end -}}
{{- end -}}

{{/*
The shared image, overridden by the parts in `image`. A digest belongs to one repository and decides regardless of the tag, so
the shared one does not apply to another repository or tag. Only registry, tag and digest may be empty. Takes `root` and `image`.
*/}}
{{- define "despatch.mergedImage" -}}
{{- $own := default (dict) .image -}}
{{- range list "repository" "pullPolicy" }}{{ if not (get $own .) }}{{ $own = omit $own . }}{{ end }}{{ end -}}
{{- $shared := .root.Values.image -}}
{{- if or $own.repository $own.tag }}{{ $shared = omit $shared "digest" }}{{ end -}}
{{- include "despatch.overlay" (dict "base" $shared "own" $own) -}}
{{- end -}}

{{/* Image reference. Takes `root` and `image`, which overrides parts of the shared one. */}}
{{- define "despatch.image" -}}
{{- $image := fromYaml (include "despatch.mergedImage" .) -}}
{{- $registry := default $image.registry .root.Values.global.imageRegistry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
:{{ default .root.Chart.AppVersion $image.tag -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{- define "despatch.imagePullPolicy" -}}
{{- (fromYaml (include "despatch.mergedImage" .)).pullPolicy -}}
{{- end -}}

{{/* Pull secrets as a list of `{name}`, from either format. */}}
{{- define "despatch.imagePullSecrets" -}}
{{- $names := list -}}
{{- range concat .Values.global.imagePullSecrets .Values.imagePullSecrets -}}
{{- if kindIs "map" . }}{{ $names = append $names .name }}{{ else }}{{ $names = append $names . }}{{ end -}}
{{- end -}}
{{- range uniq $names }}
- name: {{ . | quote }}
{{- end -}}
{{- end -}}
