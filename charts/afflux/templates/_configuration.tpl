{{/*
What the chart has to know of the configuration. The defaults are afflux's own; a field that is null
counts as left out, as afflux has it.
*/}}

{{- define "afflux.configuration" -}}
{{- $identity := dict "apiVersion" "afflux.dev/v1alpha1" "kind" "AffluxConfiguration" -}}
{{- $ledger := (.Values.config | default dict).ledger | default dict -}}
{{- if and $ledger.directory (gt (int .Values.replicas) 1) -}}
{{- fail (printf "replicas: %d with config.ledger.directory, so that each would keep a ledger of its own; expected 1, or config.ledger.url" (int .Values.replicas)) -}}
{{- end -}}
{{- toYaml (merge $identity (.Values.config | default dict)) -}}
{{- end -}}

{{- define "afflux.port" -}}
{{- $serving := (.Values.config | default dict).serving | default dict -}}
{{- $serving.port | default 10251 | int -}}
{{- end -}}

{{- define "afflux.scheme" -}}
{{- $serving := (.Values.config | default dict).serving | default dict -}}
{{- if $serving.certFile -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end -}}

{{/* Empty unless groups are deleted when their deadline is over. */}}
{{- define "afflux.cleanup" -}}
{{- $cleanup := (.Values.config | default dict).cleanup | default dict -}}
{{- if eq (toString $cleanup.enabled) "true" -}}enabled{{- end -}}
{{- end -}}

{{/* Empty unless the bound pods of half-bound groups are deleted. */}}
{{- define "afflux.takingBack" -}}
{{- $cleanup := (.Values.config | default dict).cleanup | default dict -}}
{{- $cleanup.halfBoundAfter | default "" -}}
{{- end -}}

{{- define "afflux.cleanupName" -}}
{{- printf "%s-cleanup" (include "afflux.fullname" . | trunc 55 | trimSuffix "-") -}}
{{- end -}}

{{/* Empty if there is no election. */}}
{{- define "afflux.leaseName" -}}
{{- $election := (.Values.config | default dict).leaderElection | default dict -}}
{{- if ne (toString $election.leaderElect) "false" -}}
{{- $election.resourceName | default "afflux" -}}
{{- else if gt (int .Values.replicas) 1 -}}
{{- fail (printf "replicas: %d with config.leaderElection.leaderElect: false, so that all of them would act; expected 1" (int .Values.replicas)) -}}
{{- end -}}
{{- end -}}

{{- define "afflux.leaseNamespace" -}}
{{- $election := (.Values.config | default dict).leaderElection | default dict -}}
{{- $election.resourceNamespace | default "kube-system" -}}
{{- end -}}

{{/* Who places afflux's own pods. Not afflux: its first pod would wait for itself. */}}
{{- define "afflux.schedulerName" -}}
{{- range (.Values.config | default dict).profiles | default (list dict) -}}
{{- if eq $.Values.schedulerName (.schedulerName | default "afflux") -}}
{{- fail (printf "schedulerName: %s is served by afflux itself (config.profiles), whose first pod would wait for itself; expected another scheduler" $.Values.schedulerName) -}}
{{- end -}}
{{- end -}}
{{- .Values.schedulerName -}}
{{- end -}}
