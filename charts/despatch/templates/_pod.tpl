{{/* Fields of `base`, overridden by those of `own`, including false ones: `merge` treats false as absent. */}}
{{- define "despatch.overlay" -}}
{{- $all := deepCopy (default (dict) .base) -}}
{{- range $field, $value := .own }}{{ $_ := set $all $field $value }}{{ end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* A probe of the health port at `path`, unless `own` has a handler. A probe has one handler. */}}
{{- define "despatch.probe" -}}
{{- $base := dict "httpGet" (dict "path" .path "port" "metrics") -}}
{{- range list "exec" "grpc" "httpGet" "tcpSocket" }}{{ if hasKey $.own . }}{{ $base = dict }}{{ end }}{{ end -}}
{{- include "despatch.overlay" (dict "base" $base "own" .own) -}}
{{- end -}}

{{/* Security context of a pod. Takes `root` and `own`, which overrides fields. */}}
{{- define "despatch.podSecurityContext" -}}
{{- include "despatch.overlay" (dict "base" .root.Values.podSecurityContext "own" .own) -}}
{{- end -}}

{{/* Security context of a container. Takes `root` and `own`, which overrides fields. */}}
{{- define "despatch.securityContext" -}}
{{- include "despatch.overlay" (dict "base" .root.Values.securityContext "own" .own) -}}
{{- end -}}

{{/*
Skips the checks of kube-score and checkov that do not apply to these pods, each with its reason. Takes `root` and `image`,
and may take `mountsToken`.
*/}}
{{- define "despatch.scannerAnnotations" -}}
# A CPU limit throttles under load and so adds latency; CPU requests share the CPU fairly without one. An image tag that is
# never overwritten need not be pulled at every start: a restart must not depend on the registry.
kube-score/ignore: container-resources,container-image-pull-policy
checkov.io/skip1: CKV_K8S_11=a CPU limit throttles a busy moment into latency
checkov.io/skip2: CKV_K8S_15=a restart must not depend on the registry
{{- if not (fromYaml (include "despatch.mergedImage" .)).digest }}
# Production sets image.digest; a first install may use a tag.
checkov.io/skip3: CKV_K8S_43=set image.digest to pin the image
{{- end }}
{{- if .mountsToken }}
# It calls the API server, with least privilege.
checkov.io/skip4: CKV_K8S_38=this pod calls the API server
{{- end }}
{{- end -}}

{{/*
Labels of a pod. They do not include the chart's version, because its change would replace otherwise equal pods. Takes
`root`, `component` and `own`.
*/}}
{{- define "despatch.podLabels" -}}
{{- $labels := omit (fromYaml (include "despatch.labels" .root)) "helm.sh/chart" -}}
{{- $fixed := fromYaml (include "despatch.selectorLabels" .) -}}
{{- $all := fromYaml (include "despatch.overlay" (dict "base" $labels "own" .own)) -}}
{{- include "despatch.overlay" (dict "base" $all "own" $fixed) -}}
{{- end -}}

{{/* Pod template of a Deployment, below `template`. Takes `root` and `component`. */}}
{{- define "despatch.podTemplate" -}}
{{- $root := .root -}}
{{- $component := .component -}}
{{- $own := index $root.Values $component -}}
{{- $selector := include "despatch.selectorLabels" . -}}
metadata:
  labels:
    {{- include "despatch.podLabels" (dict "root" $root "component" $component "own" $own.podLabels) | nindent 4 }}
  annotations:
    {{- $annotations := dict "kubectl.kubernetes.io/default-container" $component }}
    {{- if $root.Values.dev.enabled }}
    {{- $_ := set $annotations "checksum/dev-secret" (toYaml $root.Values.dev.secretData | sha256sum) }}
    {{- end }}
    {{- include "despatch.overlay" (dict "base" $annotations "own" $own.podAnnotations) | nindent 4 }}
spec:
  serviceAccountName: {{ include "despatch.serviceAccountName" (dict "root" $root "component" $component "account" $own.serviceAccount) | quote }}
  automountServiceAccountToken: {{ eq $component "controller" }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $own.terminationGracePeriodSeconds | int64 }}
  {{- with include "despatch.imagePullSecrets" $root }}
  imagePullSecrets: {{- . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "despatch.podSecurityContext" (dict "root" $root "own" $own.podSecurityContext) | nindent 4 }}
  {{- with $own.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $own.runtimeClassName }}
  runtimeClassName: {{ . | quote }}
  {{- end }}
  {{- with $own.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  affinity:
    {{- if $own.affinity }}
    {{- toYaml $own.affinity | nindent 4 }}
    {{- else }}
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- $selector | nindent 16 }}
    {{- end }}
  {{- with $own.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    {{- $constraint := include "despatch.overlay" (dict "base" (dict "labelSelector" (dict "matchLabels" (fromYaml $selector))) "own" .) }}
    {{- list (fromYaml $constraint) | toYaml | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with $own.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ $component | quote }}
      image: {{ include "despatch.image" (dict "root" $root "image" $own.image) | quote }}
      imagePullPolicy: {{ include "despatch.imagePullPolicy" (dict "root" $root "image" $own.image) }}
      command: [node]
      args:
        {{- concat $own.extraArgs (list (printf "services/%s/main.ts" $component)) | toYaml | nindent 8 }}
      env:
        {{- include "despatch.env" (dict "root" $root "component" $component "extra" $own.extraEnv) | nindent 8 }}
      {{- with $own.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- if eq $component "api" }}
        - {name: http, containerPort: 8080, protocol: TCP}
        {{- end }}
        - {name: metrics, containerPort: 9090, protocol: TCP}
      {{- with $own.probes.startup }}
      startupProbe:
        {{- include "despatch.probe" (dict "path" "/healthz" "own" .) | nindent 8 }}
      {{- end }}
      {{- with $own.probes.liveness }}
      livenessProbe:
        {{- include "despatch.probe" (dict "path" "/healthz" "own" .) | nindent 8 }}
      {{- end }}
      {{- with $own.probes.readiness }}
      readinessProbe:
        {{- include "despatch.probe" (dict "path" "/readyz" "own" .) | nindent 8 }}
      {{- end }}
      {{- with $own.lifecycle.preStopSleepSeconds }}
      lifecycle:
        preStop: {sleep: {seconds: {{ . | int64 }}}}
      {{- end }}
      resources:
        {{- toYaml $own.resources | nindent 8 }}
      securityContext:
        {{- include "despatch.securityContext" (dict "root" $root "own" $own.securityContext) | nindent 8 }}
      volumeMounts:
        - {name: credentials, mountPath: {{ include "despatch.credentialsFolder" . }}, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- with $own.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with $own.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: credentials
      projected:
        # 0440: readable by the pod's group alone.
        defaultMode: 288
        sources:
          {{- include "despatch.credentials" . | nindent 10 }}
    - name: tmp
      emptyDir: {sizeLimit: 256Mi}
    {{- with $own.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* A component's Deployment. Takes `root` and `component`. */}}
{{- define "despatch.deployment" -}}
{{- $own := index .root.Values .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "despatch.metadata" (dict "makesPods" true "root" .root "component" .component "image" $own.image "mountsToken" (eq .component "controller") "annotations" $own.annotations "name" (printf "%s-%s" (include "despatch.fullname" .root) .component)) | nindent 2 }}
spec:
  {{- if not (include "despatch.isScaled" .) }}
  replicas: {{ $own.replicas | int64 }}
  {{- end }}
  revisionHistoryLimit: {{ $own.revisionHistoryLimit | int64 }}
  {{- if and (eq .component "controller") (not $own.leaderElection.enabled) }}
  # Without an election two controllers must never run at once.
  strategy: {type: Recreate}
  {{- else }}
  {{- /* Helm merges the default parameters into a strategy that may have none. */}}
  strategy:
    {{- $strategy := default (dict) $own.strategy }}
    {{- eq (dig "type" "" $strategy) "Recreate" | ternary (omit $strategy "rollingUpdate") $strategy | toYaml | nindent 4 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "despatch.selectorLabels" . | nindent 6 }}
  template:
    {{- include "despatch.podTemplate" . | nindent 4 }}
{{- end -}}

{{/* Not empty if something else than the chart sets the number of pods. Takes `root` and `component`. */}}
{{- define "despatch.isScaled" -}}
{{- $own := index .root.Values .component -}}
{{- if or (dig "autoscaling" "enabled" false $own) (dig "keda" "enabled" false $own) (kindIs "invalid" $own.replicas) }}true{{ end -}}
{{- end -}}

{{/* A component's disruption budget, if it has more than one pod. Takes `root` and `component`. */}}
{{- define "despatch.podDisruptionBudget" -}}
{{- $own := index .root.Values .component -}}
{{- if and $own.enabled $own.pdb.enabled (or (gt (int $own.replicas) 1) (include "despatch.isScaled" .)) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "despatch.metadata" (dict "root" .root "component" .component "name" (printf "%s-%s" (include "despatch.fullname" .root) .component)) | nindent 2 }}
spec:
  maxUnavailable: {{ $own.pdb.maxUnavailable }}
  unhealthyPodEvictionPolicy: {{ $own.pdb.unhealthyPodEvictionPolicy }}
  selector:
    matchLabels:
      {{- include "despatch.selectorLabels" . | nindent 6 }}
{{- end -}}
{{- end -}}

{{/* A component's HorizontalPodAutoscaler. Takes `root` and `component`. */}}
{{- define "despatch.horizontalPodAutoscaler" -}}
{{- $own := index .root.Values .component -}}
{{- $name := printf "%s-%s" (include "despatch.fullname" .root) .component -}}
{{- if and $own.enabled $own.autoscaling.enabled -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "despatch.metadata" (dict "root" .root "component" .component "name" $name) | nindent 2 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $name | quote }}}
  minReplicas: {{ $own.autoscaling.minReplicas | int64 }}
  maxReplicas: {{ $own.autoscaling.maxReplicas | int64 }}
  metrics:
    {{- if $own.autoscaling.metrics }}
    {{- toYaml $own.autoscaling.metrics | nindent 4 }}
    {{- else }}
    - type: Resource
      resource:
        name: cpu
        target: {type: Utilization, averageUtilization: {{ $own.autoscaling.targetCPUUtilizationPercentage | int64 }}}
    {{- end }}
  {{- with $own.autoscaling.behavior }}
  behavior:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* A component's service account. Takes `root` and `component`. */}}
{{- define "despatch.serviceAccount" -}}
{{- $own := index .root.Values .component -}}
{{- if and $own.enabled $own.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "despatch.metadata" (dict "root" .root "component" .component "annotations" $own.serviceAccount.annotations "name" (include "despatch.serviceAccountName" (dict "root" .root "component" .component "account" $own.serviceAccount))) | nindent 2 }}
# A pod that needs a token mounts it explicitly.
automountServiceAccountToken: false
{{- end -}}
{{- end -}}

{{/* A component's Service for health and metrics, including pods that are not ready. Takes `root` and `component`. */}}
{{- define "despatch.metricsService" -}}
{{- $own := index .root.Values .component -}}
{{- if $own.enabled -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "despatch.metadata" (dict "root" .root "component" .component "labels" (dict "despatch.dev/metrics" "true") "name" (printf "%s-%s-metrics" (include "despatch.fullname" .root) .component)) | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "despatch.selectorLabels" . | nindent 4 }}
  ports:
    - {name: metrics, port: 9090, targetPort: metrics, protocol: TCP}
{{- end -}}
{{- end -}}
