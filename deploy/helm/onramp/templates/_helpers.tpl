{{/* Names and labels: the argument is a dict of `root` and `name`, the component. */}}
{{- define "onramp.name" -}}
{{ .root.Release.Name | trunc 40 | trimSuffix "-" }}-{{ .name }}
{{- end }}

{{- define "onramp.selector" -}}
app.kubernetes.io/name: onramp
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "onramp.labels" -}}
{{ include "onramp.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* Of every pod. One process namespace: the first process reaps orphans, and signals reach a service that starts. */}}
{{- define "onramp.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
shareProcessNamespace: true
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "onramp.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Settings of Kafka. */}}
{{- define "onramp.kafka" -}}
- name: ONRAMP_KAFKA_BOOTSTRAP
  value: {{ required "kafka.bootstrap is required" .Values.kafka.bootstrap | quote }}
- name: ONRAMP_KAFKA_REPLICATION
  value: {{ .Values.kafka.replication | quote }}
- name: ONRAMP_KAFKA_MIN_INSYNC
  value: {{ .Values.kafka.minInsync | quote }}
{{- if .Values.kafka.existingSecret }}
- name: ONRAMP_KAFKA_SECURITY_PROTOCOL
  value: SASL_SSL
- name: ONRAMP_KAFKA_USERNAME
  value: {{ .Values.kafka.username | quote }}
- name: ONRAMP_KAFKA_PASSWORD_FILE
  value: /etc/onramp/kafka/password
- name: ONRAMP_KAFKA_CA_FILE
  value: /etc/onramp/kafka/ca.pem
{{- end }}
{{- end }}

{{/* Settings of the writer's databases. */}}
{{- define "onramp.databases" -}}
- name: ONRAMP_WRITER_DSN
  valueFrom:
    secretKeyRef:
      name: {{ required "database.existingSecret is required" .Values.database.existingSecret }}
      key: dsn
{{- if .Values.database.hasDatabases }}
- name: ONRAMP_WRITER_DATABASES
  valueFrom:
    secretKeyRef:
      name: {{ .Values.database.existingSecret }}
      key: databases
{{- end }}
{{- end }}

{{/* Further settings: those of every component, then those of one. The argument is a dict of `root` and `env`. */}}
{{- define "onramp.env" -}}
{{- range $name, $value := merge (dict) .env .root.Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "onramp.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.kafka.existingSecret }}
- name: kafka
  mountPath: /etc/onramp/kafka
  readOnly: true
{{- end }}
{{- end }}

{{- define "onramp.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 512Mi
{{- if .Values.kafka.existingSecret }}
- name: kafka
  secret:
    secretName: {{ .Values.kafka.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{/* Probes. Alive is not ready: a service that waits for Kafka must not be restarted. The argument is a dict of
     `live` and `ready`, names of ports. */}}
{{- define "onramp.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ .live }}{{ with .scheme }}, scheme: {{ . }}{{ end }}}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: {{ .live }}{{ with .scheme }}, scheme: {{ . }}{{ end }}}
  periodSeconds: 10
  timeoutSeconds: 4
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ .ready }}}
  periodSeconds: 5
  timeoutSeconds: 4
{{- end }}

{{/* Settings of the lake's storage, of the components that write or read it. */}}
{{- define "onramp.lake" -}}
{{- with .Values.lakeStorage }}
- {name: ONRAMP_LAKE_URL, value: {{ required "lakeStorage.url is required" .url | quote }}}
- {name: ONRAMP_LAKE_REGION, value: {{ .region | quote }}}
{{- with .endpoint }}
- {name: ONRAMP_LAKE_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- if .existingSecret }}
- {name: ONRAMP_LAKE_CREDENTIALS_FILE, value: /etc/onramp/lake/credentials}
{{- end }}
{{- end }}
{{- end }}

{{- define "onramp.lakeMounts" -}}
{{- if .Values.lakeStorage.existingSecret }}
- {name: lake, mountPath: /etc/onramp/lake, readOnly: true}
{{- end }}
{{- end }}

{{- define "onramp.lakeVolumes" -}}
{{- with .Values.lakeStorage.existingSecret }}
- name: lake
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}
