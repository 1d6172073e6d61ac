{{/* The IO driver and the aggregator (docs/disk-io-driver.md). Their pods have a name of their own,
     so that no selector of the scheduler finds them. */}}

{{- define "afflux.diskIODriver" -}}
{{- if ((.Values.diskIO | default dict).driver | default dict).enabled -}}enabled{{- end -}}
{{- end -}}

{{- define "afflux.diskIOAggregator" -}}
{{- if ((.Values.diskIO | default dict).aggregator | default dict).enabled -}}enabled{{- end -}}
{{- end -}}

{{/* At most 63 characters. */}}
{{- define "afflux.diskIODriverName" -}}
{{- printf "%s-disk-io-driver" (include "afflux.fullname" . | trunc 48 | trimSuffix "-") -}}
{{- end -}}

{{- define "afflux.diskIOAggregatorName" -}}
{{- printf "%s-disk-io-aggregator" (include "afflux.fullname" . | trunc 44 | trimSuffix "-") -}}
{{- end -}}

{{- define "afflux.diskIODriverSelectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-disk-io-driver" (include "afflux.name" . | trunc 48 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "afflux.diskIOAggregatorSelectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-disk-io-aggregator" (include "afflux.name" . | trunc 44 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of the objects of both; a dictionary with the root and the selector labels. */}}
{{- define "afflux.diskIOLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ .selector }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/component: disk-io
app.kubernetes.io/part-of: afflux
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{- define "afflux.diskIOImage" -}}
{{- $driver := .Values.diskIO.driver -}}
{{- $driver.image | default (include "afflux.image" .) -}}
{{- end -}}

{{/* Where drivers reach the aggregator. */}}
{{- define "afflux.diskIOAggregatorURL" -}}
{{- $scheme := ternary "https" "http" (ne ((.Values.diskIO.aggregator).tlsSecret | default "") "") -}}
{{- printf "%s://%s.%s.svc:%d" $scheme (include "afflux.diskIOAggregatorName" .) .Release.Namespace 10271 -}}
{{- end -}}
