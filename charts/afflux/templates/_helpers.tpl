{{/* Names and labels. */}}

{{- define "afflux.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 63 characters, the maximum length of a label. */}}
{{- define "afflux.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "afflux.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "afflux.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* At most 63 characters, the maximum length of a Service name. */}}
{{- define "afflux.inspectionName" -}}
{{- printf "%s-inspection" (include "afflux.fullname" . | trunc 52 | trimSuffix "-") -}}
{{- end -}}

{{- define "afflux.viewerName" -}}
{{- printf "%s-viewer" (include "afflux.fullname" . | trunc 56 | trimSuffix "-") -}}
{{- end -}}

{{- define "afflux.selectorLabels" -}}
app.kubernetes.io/name: {{ include "afflux.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "afflux.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "afflux.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: scheduler
app.kubernetes.io/part-of: afflux
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "afflux.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "afflux.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: missing, expected the name of an account since serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "afflux.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}
