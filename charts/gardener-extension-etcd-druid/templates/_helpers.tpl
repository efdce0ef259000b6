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

{{- /* A tag contains no colon, so that "sha256:<digest>" is a digest without a tag. A digest after a tag stays. */ -}}
{{- define "image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- $separator := contains ":" (first (splitList "@" $tag)) | ternary "@" ":" -}}
{{- .Values.image.ref | default (printf "%s%s%s" .Values.image.repository $separator $tag) -}}
{{- end -}}

{{- /* Returns the value of a switch. Unset: true if gardener.enabled is false. Arguments: switch and root, (list .Values.x.enabled .) */ -}}
{{- define "enabled" -}}
{{- $switch := index . 0 -}}
{{- if kindIs "invalid" $switch -}}
{{- not (index . 1).Values.gardener.enabled -}}
{{- else -}}
{{- $switch -}}
{{- end -}}
{{- end -}}

{{- /* Returns the value of a switch. Unset: the value of gardener.enabled. Arguments: switch and root, (list .Values.x.enabled .) */ -}}
{{- define "inGardener" -}}
{{- $switch := index . 0 -}}
{{- if kindIs "invalid" $switch -}}
{{- (index . 1).Values.gardener.enabled -}}
{{- else -}}
{{- $switch -}}
{{- end -}}
{{- end -}}

{{- /* gardener-operator passes this value as a string. */ -}}
{{- define "inGarden" -}}
{{- eq (toString (dig "runtimeCluster" "enabled" false .Values.gardener)) "true" -}}
{{- end -}}

{{- /* Name of Gardener's Prometheus that scrapes the operator. It selects objects by the label prometheus with this value. */ -}}
{{- define "prometheus" -}}
{{- eq (include "inGarden" .) "true" | ternary "garden" "seed" -}}
{{- end -}}

{{- /* Namespace of gardenlet's Deployment if it runs the operator in place of etcd-druid. Empty: the Deployment of this chart runs it. */ -}}
{{- define "inPlaceOfEtcdDruid" -}}
{{- if and .Values.gardener.enabled (eq (int .Values.replicaCount) 0) .Values.additionalServiceAccounts -}}
{{- (first .Values.additionalServiceAccounts).namespace -}}
{{- end -}}
{{- end -}}

{{- define "embedded" -}}
{{- include "enabled" (list .Values.embeddedResourceManager.enabled .) -}}
{{- end -}}

{{- /* The watched namespaces as a JSON list. Empty: all. */ -}}
{{- define "watchNamespaces" -}}
{{- if and .Values.watchNamespaces .Values.gardener.enabled -}}
{{- fail "watchNamespaces needs gardener.enabled=false: in a seed, each shoot has its own namespace" -}}
{{- end -}}
{{- .Values.watchNamespaces | default list | toJson -}}
{{- end -}}

{{- define "networkPolicies" -}}
{{- if and .Values.networkPolicies.enabled .Values.gardener.enabled -}}
{{- fail "networkPolicies.enabled needs gardener.enabled=false: in a seed, gardener-resource-manager creates the NetworkPolicies" -}}
{{- end -}}
{{- ternary (not .Values.gardener.enabled) .Values.networkPolicies.enabled (kindIs "invalid" .Values.networkPolicies.enabled) -}}
{{- end -}}

{{- define "profiling" -}}
{{- range .Values.extraArgs -}}
{{- if hasPrefix "--enable-profiling" . -}}
{{- fail "extraArgs: --enable-profiling is not taken: set config.debugging.enableProfiling, which also grants the rights that it needs" -}}
{{- end -}}
{{- end -}}
{{- dig "debugging" "enableProfiling" false .Values.config -}}
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

{{- /* Where the pods of the operator may run. The pod of the uninstallation must be able to run on the same nodes. */ -}}
{{- define "nodes" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* matchLabelKeys: during a rolling update, the pods of the earlier ReplicaSet do not count. */ -}}
{{- define "topologySpreadConstraints" -}}
{{- $constraints := .Values.topologySpreadConstraints -}}
{{- if and (kindIs "invalid" $constraints) (not .Values.gardener.enabled) -}}
{{- $constraints = list -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" -}}
{{- $constraints = append $constraints (dict "topologyKey" . "whenUnsatisfiable" "ScheduleAnyway" "matchLabelKeys" (list "pod-template-hash")) -}}
{{- end -}}
{{- end -}}
{{- $complete := list -}}
{{- range $constraints -}}
{{- $constraint := deepCopy . -}}
{{- if not (hasKey . "maxSkew") -}}
{{- $_ := set $constraint "maxSkew" 1 -}}
{{- end -}}
{{- if not (hasKey . "labelSelector") -}}
{{- $_ := set $constraint "labelSelector" (dict "matchLabels" (include "selector" $ | fromYaml)) -}}
{{- end -}}
{{- $complete = append $complete $constraint -}}
{{- end -}}
{{- with $complete -}}
topologySpreadConstraints:
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{- /* Whether the operator serves and registers a webhook. */ -}}
{{- define "webhooks" -}}
{{- or .Values.protection.enabled .Values.evictionWebhook.enabled -}}
{{- end -}}

{{- /* Users and ServiceAccounts that may change objects of Etcds. The policies and the configuration of the operator both contain them. */ -}}
{{- define "protectionConfig" -}}
enabled: true
serviceAccountInfo:
  name: {{ include "name" . }}
  namespace: {{ .Release.Namespace }}
exemptServiceAccounts:
{{- if .Values.gardener.enabled }}
- system:serviceaccount:garden:gardener-resource-manager
# gardenlet's etcd-druid, which reconciles the Etcds until the operator takes over.
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
# gardenlet deletes pods whose eviction or termination hangs.
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
{{- if hasKey (.Values.config.webhooks | default dict) "eviction" -}}
{{- fail "config.webhooks.eviction is not taken: set evictionWebhook, on which the Service of the webhook depends as well" -}}
{{- end -}}
{{- if hasKey .Values.config "watchNamespaces" -}}
{{- fail "config.watchNamespaces is not taken: set watchNamespaces, which also grants the rights that it needs" -}}
{{- end -}}
{{- if or (hasKey (.Values.config.rendering | default dict) "networkPolicies") (hasKey (.Values.config.rendering | default dict) "networkPolicyScope") -}}
{{- fail "config.rendering.networkPolicies is not taken: set networkPolicies, of which the NetworkPolicy of the operator is made as well" -}}
{{- end -}}
{{- $own := dict
  "apiVersion" "config.druid.gardener.cloud/v1alpha1"
  "kind" "OperatorConfiguration"
  "predecessor" .Values.predecessor
  "controllers" (dict
    "etcd" (dict "enableEtcdSpecAutoReconcile" (not .Values.gardener.enabled))
    "etcdCopyBackupsTask" (dict "enabled" true))
  "resourceManager" (dict "embedded" (eq (include "embedded" .) "true")) -}}
{{- if not .Values.gardener.enabled -}}
{{- $_ := set $own.controllers.etcd "newEtcdVersion" "3.5" -}}
{{- end -}}
{{- /* The operator's image contains etcd-helper, which Jobs run. */ -}}
{{- $helper := dict "image" (include "image" .) -}}
{{- with .Values.imagePullSecrets -}}
{{- $_ := set $helper "imagePullSecrets" . -}}
{{- end -}}
{{- $_ := set $own "etcdHelper" $helper -}}
{{- /* Each Etcd can access each folder in these node directories. Outside of Gardener, the list is therefore empty by default. */ -}}
{{- $_ := set $own "localStore" (dict "roots" (ternary (list "/etc/gardener/local-backupbuckets") list .Values.gardener.enabled)) -}}
{{- with include "watchNamespaces" . | fromJsonArray -}}
{{- $_ := set $own "watchNamespaces" . -}}
{{- end -}}
{{- if .Values.gardener.enabled -}}
{{- /* All instances of the operator in a seed, and etcd-druid, use the same Lease, whichever Deployment runs them. */ -}}
{{- $_ := set $own "leaderElection" (dict "resourceNamespace" "garden") -}}
{{- /* NetworkPolicies allow only etcd-druid in the namespace garden to reach the members. Also allow the operator's namespace. A second registration can
install another version on some seeds. */ -}}
{{- $names := list (include "name" .) (printf "%s-next" (include "name" .)) -}}
{{- $registrations := dict "key" "controllerregistration.core.gardener.cloud/name" "operator" "In" "values" $names -}}
{{- $selector := dict "matchLabels" (dict "gardener.cloud/role" "extension") "matchExpressions" (list $registrations) -}}
{{- $_ := set $own "rendering" (dict "namespaceSelectors" (list $selector)) -}}
{{- end -}}
{{- if eq (include "networkPolicies" .) "true" -}}
{{- $operator := dict
  "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" .Release.Namespace))
  "podSelector" (dict "matchLabels" (include "selector" . | fromYaml)) -}}
{{- $policies := dict "operator" (list $operator) "monitoring" .Values.networkPolicies.monitoring -}}
{{- /* Unset differs from an empty list. */ -}}
{{- range $key := list "clients" "dns" "apiServer" "stores" -}}
{{- if not (kindIs "invalid" (index $.Values.networkPolicies $key)) -}}
{{- $_ := set $policies $key (index $.Values.networkPolicies $key) -}}
{{- end -}}
{{- end -}}
{{- $scope := ternary "New" "All" (kindIs "invalid" .Values.networkPolicies.enabled) -}}
{{- $_ := set $own "rendering" (merge (dict "networkPolicies" $policies "networkPolicyScope" $scope) ($own.rendering | default dict)) -}}
{{- end -}}
{{- $webhooks := dict "eviction" (dict "enabled" .Values.evictionWebhook.enabled) -}}
{{- if eq (include "protection" .) "true" -}}
{{- $_ := set $webhooks "etcdComponentProtection" (include "protectionConfig" . | fromYaml) -}}
{{- end -}}
{{- $_ := set $own "webhooks" $webhooks -}}
{{- if eq (include "webhooks" .) "true" -}}
{{- $_ := set $own "server" (dict "webhooks" (dict "managedCertificate" true)) -}}
{{- end -}}
{{- mergeOverwrite $own (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{- define "webhookPort" -}}
{{- dig "server" "webhooks" "port" 9443 .Values.config -}}
{{- end -}}

{{- /* If the port in the configuration is -1, the operator does not listen. The pod then declares the default port. */ -}}
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
