{{- define "name" -}}
gardener-extension-etcd-druid
{{- end -}}

{{- define "selector" -}}
app.kubernetes.io/name: {{ include "name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "labels" -}}
{{ include "selector" . }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "image" -}}
{{- .Values.image.ref | default (printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion)) -}}
{{- end -}}

{{- /* A switch that is unset is on where Gardener is not. Call with the switch and the root: (list .Values.x.enabled .) */ -}}
{{- define "enabled" -}}
{{- $switch := index . 0 -}}
{{- if kindIs "invalid" $switch -}}
{{- not (index . 1).Values.gardener.enabled -}}
{{- else -}}
{{- $switch -}}
{{- end -}}
{{- end -}}

{{- /* A switch that is unset is on where Gardener is. Call with the switch and the root: (list .Values.x.enabled .) */ -}}
{{- define "inGardener" -}}
{{- $switch := index . 0 -}}
{{- if kindIs "invalid" $switch -}}
{{- (index . 1).Values.gardener.enabled -}}
{{- else -}}
{{- $switch -}}
{{- end -}}
{{- end -}}

{{- /* gardener-operator hands the switch over as a text. */ -}}
{{- define "inGarden" -}}
{{- eq (toString (dig "runtimeCluster" "enabled" false .Values.gardener)) "true" -}}
{{- end -}}

{{- /* The Prometheus of Gardener that scrapes the operator. It selects objects in all namespaces by a label with its name. */ -}}
{{- define "prometheus" -}}
{{- eq (include "inGarden" .) "true" | ternary "garden" "seed" -}}
{{- end -}}

{{- /* The namespace of gardenlet's Deployment where that runs the operator in place of etcd-druid. Empty: this chart's runs it. */ -}}
{{- define "inPlaceOfEtcdDruid" -}}
{{- if and .Values.gardener.enabled (eq (int .Values.replicaCount) 0) .Values.additionalServiceAccounts -}}
{{- (first .Values.additionalServiceAccounts).namespace -}}
{{- end -}}
{{- end -}}

{{- define "embedded" -}}
{{- include "enabled" (list .Values.embeddedResourceManager.enabled .) -}}
{{- end -}}

{{- define "subjects" -}}
subjects:
- kind: ServiceAccount
  name: {{ include "name" . }}
  namespace: {{ .Release.Namespace }}
{{- range .Values.additionalServiceAccounts }}
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .namespace }}
{{- end }}
{{- end -}}

{{- define "protection" -}}
{{- .Values.protection.enabled -}}
{{- end -}}

{{- /* Who may do what with the objects of Etcds, for the policies and for the operator alike. */ -}}
{{- define "protectionConfig" -}}
enabled: true
serviceAccountInfo:
  name: {{ include "name" . }}
  namespace: {{ .Release.Namespace }}
exemptServiceAccounts:
{{- if .Values.gardener.enabled }}
- system:serviceaccount:garden:gardener-resource-manager
# The etcd-druid that gardenlet installs, as long as it is active.
- system:serviceaccount:garden:etcd-druid
{{- end }}
{{- range .Values.additionalServiceAccounts }}
- system:serviceaccount:{{ .namespace }}:{{ .name }}
{{- end }}
- system:serviceaccount:kube-system:generic-garbage-collector
{{- with .Values.protection.exemptServiceAccounts }}
{{ toYaml . }}
{{- end }}
exemptUsers: {{ .Values.protection.exemptUsers | toJson }}
{{- if .Values.gardener.enabled }}
# gardenlet deletes pods that are evicted or hang.
drainers: {{ prepend .Values.protection.drainers "system:serviceaccount:garden:gardenlet" | toJson }}
{{- else }}
drainers: {{ .Values.protection.drainers | toJson }}
{{- end }}
{{- end -}}

{{- define "config" -}}
{{- if hasKey .Values.config "predecessor" -}}
{{- fail "config.predecessor is not taken: set predecessor, which also grants the rights that it needs" -}}
{{- end -}}
{{- if hasKey (.Values.config.resourceManager | default dict) "embedded" -}}
{{- fail "config.resourceManager.embedded is not taken: set embeddedResourceManager.enabled, which also grants the rights that it needs" -}}
{{- end -}}
{{- if hasKey (.Values.config.webhooks | default dict) "etcdComponentProtection" -}}
{{- fail "config.webhooks.etcdComponentProtection is not taken: set protection, of which the admission policies are made as well" -}}
{{- end -}}
{{- $own := dict
  "apiVersion" "config.druid.gardener.cloud/v1alpha1"
  "kind" "OperatorConfiguration"
  "predecessor" .Values.predecessor
  "controllers" (dict
    "etcd" (dict "enableEtcdSpecAutoReconcile" (not .Values.gardener.enabled))
    "etcdCopyBackupsTask" (dict "enabled" true))
  "resourceManager" (dict "embedded" (eq (include "embedded" .) "true")) -}}
{{- /* Each Etcd reaches each folder in these directories of the nodes: without Gardener there are none by default. */ -}}
{{- $_ := set $own "localStore" (dict "roots" (ternary (list "/etc/gardener/local-backupbuckets") list .Values.gardener.enabled)) -}}
{{- if .Values.gardener.enabled -}}
{{- /* One election for all ways in which the operator comes onto a seed, and with etcd-druid. */ -}}
{{- $_ := set $own "leaderElection" (dict "resourceNamespace" "garden") -}}
{{- /* gardenlet lets its own etcd-druid reach the members, from the namespace garden. */ -}}
{{- $selector := dict "matchLabels" (dict "gardener.cloud/role" "extension" "controllerregistration.core.gardener.cloud/name" (include "name" .)) -}}
{{- $_ := set $own "rendering" (dict "namespaceSelectors" (list $selector)) -}}
{{- end -}}
{{- if eq (include "protection" .) "true" -}}
{{- $_ := set $own "webhooks" (dict "etcdComponentProtection" (include "protectionConfig" . | fromYaml)) -}}
{{- $_ := set $own "server" (dict "webhooks" (dict "managedCertificate" true)) -}}
{{- end -}}
{{- mergeOverwrite $own (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{- define "webhookPort" -}}
{{- dig "server" "webhooks" "port" 9443 .Values.config -}}
{{- end -}}

{{- /* The ports of what is switched off by -1 stay declared, and nothing listens there. */ -}}
{{- define "metricsPort" -}}
{{- $port := int (dig "server" "metrics" "port" 8080 .Values.config) -}}
{{- gt $port 0 | ternary $port 8080 -}}
{{- end -}}

{{- define "healthPort" -}}
{{- $port := int (dig "server" "healthProbes" "port" 8081 .Values.config) -}}
{{- gt $port 0 | ternary $port 8081 -}}
{{- end -}}

{{- define "webhookCertDir" -}}
{{- dig "server" "webhooks" "serverCertDir" "/etc/webhook-server-tls" .Values.config -}}
{{- end -}}
