{{/* What the chart has to know of the configuration; the defaults are afflux's own. */}}

{{- define "afflux.configuration" -}}
{{- $identity := dict "apiVersion" "afflux.dev/v1alpha1" "kind" "AffluxConfiguration" -}}
{{- toYaml (merge $identity .Values.config) -}}
{{- end -}}

{{- define "afflux.port" -}}
{{- dig "serving" "port" 10251 .Values.config -}}
{{- end -}}

{{- define "afflux.scheme" -}}
{{- if dig "serving" "certFile" "" .Values.config -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end -}}

{{- define "afflux.electsLeader" -}}
{{- if dig "leaderElection" "leaderElect" true .Values.config -}}true{{- end -}}
{{- end -}}

{{- define "afflux.leaseName" -}}
{{- dig "leaderElection" "resourceName" "afflux" .Values.config -}}
{{- end -}}

{{- define "afflux.leaseNamespace" -}}
{{- dig "leaderElection" "resourceNamespace" "kube-system" .Values.config -}}
{{- end -}}

{{/* The scheduler of afflux's own pods. It must not be afflux: its first pod would wait for itself. */}}
{{- define "afflux.schedulerName" -}}
{{- $served := list -}}
{{- range .Values.config.profiles | default (list dict) -}}
{{- $served = append $served (.schedulerName | default "afflux") -}}
{{- end -}}
{{- if has .Values.schedulerName $served -}}
{{- fail (printf "schedulerName: %s is served by afflux itself (config.profiles), so that its first pod would wait for itself; expected another scheduler of the cluster" .Values.schedulerName) -}}
{{- end -}}
{{- .Values.schedulerName -}}
{{- end -}}
