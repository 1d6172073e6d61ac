{{/*
The fields of the configuration that the chart needs, with afflux's defaults. A field that is null
counts as missing, as in afflux. Values that an earlier chart did not have are missing after
`helm upgrade --reuse-values`: then the values of values.yaml apply.
*/}}

{{- define "afflux.configuration" -}}
{{- $configuration := deepCopy (.Values.config | default dict) -}}
{{- $_ := merge $configuration (dict "apiVersion" "afflux.dev/v1alpha1" "kind" "AffluxConfiguration") -}}
{{- with include "afflux.ledgerDirectory" . -}}
{{- $ledger := merge (dict "directory" .) ($configuration.ledger | default dict) -}}
{{- $_ := set $configuration "ledger" $ledger -}}
{{- end -}}
{{- with include "afflux.trustedKeysSecret" . -}}
{{- $diskIO := merge (dict "trustedKeys" (include "afflux.trustedKeysDirectory" $)) ($configuration.diskIO | default dict) -}}
{{- $_ := set $configuration "diskIO" $diskIO -}}
{{- end -}}
{{- toYaml $configuration -}}
{{- end -}}

{{/* The directory of the embedded ledger; empty if the ledger has a URL or is disabled. */}}
{{- define "afflux.ledgerDirectory" -}}
{{- $ledger := (.Values.config | default dict).ledger | default dict -}}
{{- $kept := ne (toString $ledger.enabled) "false" -}}
{{- if and $ledger.url $ledger.directory -}}
{{- fail "config.ledger.directory: given, expected either url, a database, or directory, an embedded ledger" -}}
{{- end -}}
{{- if and (or $ledger.url $ledger.directory) (not $kept) -}}
{{- fail (printf "config.ledger.%s: given, expected none since config.ledger.enabled is false" (ternary "url" "directory" (not (empty $ledger.url)))) -}}
{{- end -}}
{{- if and $kept (not $ledger.url) -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- fail (printf "replicas: %d with an embedded ledger, so that each would have a ledger of its own; expected 1, or config.ledger.url, or config.ledger.enabled: false" (int .Values.replicas)) -}}
{{- end -}}
{{- $ledger.directory | default "/var/lib/afflux/ledger" -}}
{{- end -}}
{{- end -}}

{{/* The claim of the embedded ledger; empty if an emptyDir is used. */}}
{{- define "afflux.ledgerClaim" -}}
{{- $claim := (.Values.ledger | default dict).claim | default dict -}}
{{- if or $claim.create $claim.name -}}
{{- $claim.name | default (printf "%s-ledger" (include "afflux.fullname" . | trunc 56 | trimSuffix "-")) -}}
{{- end -}}
{{- end -}}

{{- define "afflux.port" -}}
{{- $serving := (.Values.config | default dict).serving | default dict -}}
{{- $serving.port | default 10251 | int -}}
{{- end -}}

{{- define "afflux.scheme" -}}
{{- $serving := (.Values.config | default dict).serving | default dict -}}
{{- if $serving.certFile -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end -}}

{{/* Empty unless groups are deleted after their deadline, or when they have completed. */}}
{{- define "afflux.cleanup" -}}
{{- $cleanup := (.Values.config | default dict).cleanup | default dict -}}
{{- if or (eq (toString $cleanup.enabled) "true") (eq (toString $cleanup.finished) "true") -}}
enabled
{{- end -}}
{{- end -}}

{{/* Empty unless the bound pods of half-bound groups are deleted. */}}
{{- define "afflux.halfBoundRollback" -}}
{{- $cleanup := (.Values.config | default dict).cleanup | default dict -}}
{{- $cleanup.halfBoundAfter | default "" -}}
{{- end -}}

{{- define "afflux.cleanupName" -}}
{{- printf "%s-cleanup" (include "afflux.fullname" . | trunc 55 | trimSuffix "-") -}}
{{- end -}}

{{/* Empty unless pods of a profile have default constraints, which depend on Services and owners. */}}
{{- define "afflux.defaultConstraints" -}}
{{- $configuration := .Values.config | default dict -}}
{{- $usual := $configuration.topologySpread | default dict -}}
{{- range $configuration.profiles | default (list dict) -}}
{{- $spread := ternary .topologySpread $usual (kindIs "map" .topologySpread) -}}
{{- if or (ne ($spread.defaultingType | default "System") "List") $spread.defaultConstraints -}}enabled{{- end -}}
{{- end -}}
{{- end -}}

{{/* Empty unless running pods are evicted for waiting ones. */}}
{{- define "afflux.preemption" -}}
{{- range (.Values.config | default dict).profiles | default (list dict) -}}
{{- if ne (toString (.preemption | default dict).enabled) "false" -}}enabled{{- end -}}
{{- end -}}
{{- end -}}

{{/* Empty without leader election. */}}
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

{{/* The scheduler of afflux's own pods. Not afflux: its first pod would wait for itself. */}}
{{- define "afflux.schedulerName" -}}
{{- range (.Values.config | default dict).profiles | default (list dict) -}}
{{- if eq $.Values.schedulerName (.schedulerName | default "afflux") -}}
{{- fail (printf "schedulerName: %s is served by afflux itself (config.profiles), whose first pod would wait for itself; expected another scheduler" $.Values.schedulerName) -}}
{{- end -}}
{{- end -}}
{{- .Values.schedulerName -}}
{{- end -}}

{{/* Empty unless disk bandwidth counts for a profile: its policies, or the usual ones, have disk-io. */}}
{{- define "afflux.diskIO" -}}
{{- $configuration := .Values.config | default dict -}}
{{- $usual := $configuration.policies | default (list dict) -}}
{{- range $configuration.profiles | default (list dict) -}}
{{- $policies := ternary .policies $usual (kindIs "slice" .policies) -}}
{{- range $policies -}}
{{- if eq (toString .name) "disk-io" -}}enabled{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The namespace of the NodeDiskIOInfo objects; that of the release by default, as in afflux. */}}
{{- define "afflux.diskIONamespace" -}}
{{- $diskIO := (.Values.config | default dict).diskIO | default dict -}}
{{- $diskIO.namespace | default .Release.Namespace -}}
{{- end -}}

{{- define "afflux.diskIOName" -}}
{{- printf "%s-disk-io" (include "afflux.fullname" . | trunc 55 | trimSuffix "-") -}}
{{- end -}}

{{/* The ConfigMap with the normalisers; the KEP's by default. */}}
{{- define "afflux.normalisersConfigMap" -}}
{{- $diskIO := (.Values.config | default dict).diskIO | default dict -}}
{{- ($diskIO.configMap | default dict).name | default "normalization-func" -}}
{{- end -}}

{{- define "afflux.normalisersNamespace" -}}
{{- $diskIO := (.Values.config | default dict).diskIO | default dict -}}
{{- ($diskIO.configMap | default dict).namespace | default "default" -}}
{{- end -}}

{{- define "afflux.normalisersName" -}}
{{- printf "%s-normalisers" (include "afflux.fullname" . | trunc 51 | trimSuffix "-") -}}
{{- end -}}

{{/* The Secret with the keys by which normalisers are signed; empty without one. */}}
{{- define "afflux.trustedKeysSecret" -}}
{{- if include "afflux.diskIO" . -}}
{{- $secret := (.Values.diskIO | default dict).trustedKeysSecret | default "" -}}
{{- $diskIO := (.Values.config | default dict).diskIO | default dict -}}
{{- if and $secret $diskIO.trustedKeys -}}
{{- fail "config.diskIO.trustedKeys: given, expected none since diskIO.trustedKeysSecret is mounted for it" -}}
{{- end -}}
{{- $secret -}}
{{- end -}}
{{- end -}}

{{- define "afflux.trustedKeysDirectory" -}}/etc/afflux-disk-keys{{- end -}}
