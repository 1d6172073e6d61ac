{{/* The gRPC service: names and labels of its own, so that no other Service selects its pods. */}}

{{- define "afflux.grpcName" -}}
{{- printf "%s-grpc" (include "afflux.fullname" . | trunc 58 | trimSuffix "-") -}}
{{- end -}}

{{- define "afflux.grpcSelectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-grpc" (include "afflux.name" . | trunc 58 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "afflux.grpcLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "afflux.grpcSelectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: grpc
app.kubernetes.io/part-of: afflux
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "afflux.grpcConfiguration" -}}
{{- merge (deepCopy (.Values.grpc.config | default dict)) (dict "apiVersion" "afflux.dev/v1alpha1" "kind" "AffluxConfiguration") | toYaml -}}
{{- end -}}
