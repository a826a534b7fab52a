{{/*
Pod spec of a Job that runs one of `files/`, below `template.spec`. Takes `root`, `component`, `script`, `env` (a list),
`resources`, `serviceAccountName` and `secrets` (sources of the credentials), and may take `mountsToken`.
*/}}
{{- define "despatch.scriptPod" -}}
serviceAccountName: {{ .serviceAccountName | quote }}
automountServiceAccountToken: {{ default false .mountsToken }}
enableServiceLinks: false
restartPolicy: Never
{{- with include "despatch.imagePullSecrets" .root }}
imagePullSecrets: {{- . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "despatch.podSecurityContext" (dict "root" .root) | nindent 2 }}
{{ include "despatch.jobScheduling" .root }}
containers:
  - name: {{ .component | quote }}
    image: {{ include "despatch.image" (dict "root" .root) | quote }}
    imagePullPolicy: {{ include "despatch.imagePullPolicy" (dict "root" .root) }}
    command: [node, --input-type=module, --eval]
    args:
      - |
        {{- .root.Files.Get (printf "files/%s" .script) | nindent 8 }}
    env:
      {{- toYaml .env | nindent 6 }}
    resources:
      {{- toYaml .resources | nindent 6 }}
    securityContext:
      {{- include "despatch.securityContext" (dict "root" .root) | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      {{- if .secrets }}
      - {name: credentials, mountPath: {{ include "despatch.credentialsFolder" . }}, readOnly: true}
      {{- end }}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: 16Mi}
  {{- with .secrets }}
  - name: credentials
    projected:
      # 0440: readable by the pod's group alone.
      defaultMode: 288
      sources:
        {{- toYaml . | nindent 8 }}
  {{- end }}
{{- end -}}

{{/* Where the pods of Jobs may run, below `template.spec`. */}}
{{- define "despatch.jobScheduling" -}}
{{- with .Values.migrations -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Annotations of the pod of a Job, below `template.metadata`. */}}
{{- define "despatch.jobPodAnnotations" -}}
{{- with . -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}
