{{/* Pod template of the migration, below `template`. */}}
{{- define "despatch.migrations.podTemplate" -}}
{{- $own := .Values.migrations -}}
{{- $context := dict "root" . "component" "migrate" "extra" $own.extraEnv -}}
metadata:
  labels:
    {{- include "despatch.podLabels" (dict "root" . "component" "migrate" "own" $own.podLabels) | nindent 4 }}
  {{- include "despatch.jobPodAnnotations" $own.podAnnotations | nindent 2 }}
spec:
  serviceAccountName: {{ include "despatch.serviceAccountName" (dict "root" . "component" "migrate" "account" $own.serviceAccount) | quote }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  restartPolicy: Never
  {{- with include "despatch.imagePullSecrets" . }}
  imagePullSecrets: {{- . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "despatch.podSecurityContext" (dict "root" .) | nindent 4 }}
  {{- include "despatch.jobScheduling" . | nindent 2 }}
  containers:
    - name: migrate
      image: {{ include "despatch.image" (dict "root" .) | quote }}
      imagePullPolicy: {{ include "despatch.imagePullPolicy" (dict "root" .) }}
      command: [node]
      args: [services/migrate/main.ts]
      env:
        {{- include "despatch.env" $context | nindent 8 }}
      resources:
        {{- toYaml $own.resources | nindent 8 }}
      securityContext:
        {{- include "despatch.securityContext" (dict "root" .) | nindent 8 }}
      volumeMounts:
        - {name: credentials, mountPath: {{ include "despatch.credentialsFolder" . }}, readOnly: true}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: credentials
      projected:
        # 0440: readable by the pod's group alone.
        defaultMode: 288
        sources:
          {{- include "despatch.credentials" $context | nindent 10 }}
    - name: tmp
      emptyDir: {sizeLimit: 64Mi}
{{- end -}}
