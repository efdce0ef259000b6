// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"net/netip"
	pathpkg "path"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// featureGates are the names that a configuration may switch.
var featureGates = []string{configv1alpha1.FeatureUpgradeEtcdVersion}

// ValidateOperatorConfiguration returns everything that is wrong with a configuration whose defaults were applied.
func ValidateOperatorConfiguration(c *configv1alpha1.OperatorConfiguration) field.ErrorList {
	var errs field.ErrorList

	if c.ClientConnection.Burst < 0 {
		errs = append(errs, field.Invalid(field.NewPath("clientConnection", "burst"), c.ClientConnection.Burst, "must not be negative"))
	}
	errs = append(errs, validateLeaderElection(c.LeaderElection, field.NewPath("leaderElection"))...)
	errs = append(errs, validateServers(c.Server, field.NewPath("server"))...)
	if c.Debugging.EnableContentionProfiling && !c.Debugging.EnableProfiling {
		errs = append(errs, field.Invalid(field.NewPath("debugging", "enableContentionProfiling"), true, "needs debugging.enableProfiling"))
	}
	errs = append(errs, validateEtcd(c.Controllers.Etcd, field.NewPath("controllers", "etcd"))...)
	errs = append(errs, validateTasks(c.Controllers, field.NewPath("controllers"))...)
	errs = append(errs, validateComponentProtection(c.Webhooks.EtcdComponentProtection, field.NewPath("webhooks", "etcdComponentProtection"))...)
	errs = append(errs, validateRendering(c.Rendering, field.NewPath("rendering"))...)
	errs = append(errs, validateRoots(c.LocalStore.Roots, field.NewPath("localStore", "roots"))...)
	errs = append(errs, validateRestrictions(c.Restrictions, field.NewPath("restrictions"))...)
	errs = append(errs, validateWatchNamespaces(c, field.NewPath("watchNamespaces"))...)
	errs = append(errs, validateEtcdHelper(c.EtcdHelper, field.NewPath("etcdHelper"))...)
	errs = append(errs, positive(c.ResourceManager.SyncPeriod, field.NewPath("resourceManager", "syncPeriod"))...)
	errs = append(errs, supported(c.Predecessor, field.NewPath("predecessor"), configv1alpha1.PredecessorStandBy, configv1alpha1.PredecessorTakeOver, configv1alpha1.PredecessorGiveBack)...)
	errs = append(errs, validatePredecessor(c)...)
	errs = append(errs, validateFeatureGates(c.FeatureGates, field.NewPath("featureGates"))...)
	errs = append(errs, supported(c.Logging.LogLevel, field.NewPath("logging", "logLevel"), configv1alpha1.LogLevelDebug, configv1alpha1.LogLevelInfo, configv1alpha1.LogLevelError)...)
	errs = append(errs, supported(c.Logging.LogFormat, field.NewPath("logging", "logFormat"), configv1alpha1.LogFormatJSON, configv1alpha1.LogFormatText)...)

	return errs
}

// validatePredecessor refuses to change hands without the election that keeps several instances apart.
func validatePredecessor(c *configv1alpha1.OperatorConfiguration) field.ErrorList {
	if c.Predecessor == configv1alpha1.PredecessorStandBy || c.LeaderElection.Enabled == nil || *c.LeaderElection.Enabled {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("leaderElection", "enabled"), false, "predecessor "+string(c.Predecessor)+" needs the election")}
}

func validateLeaderElection(c configv1alpha1.LeaderElectionConfiguration, path *field.Path) field.ErrorList {
	if c.Enabled != nil && !*c.Enabled {
		return nil
	}

	var errs field.ErrorList
	errs = append(errs, positive(c.LeaseDuration, path.Child("leaseDuration"))...)
	errs = append(errs, positive(c.RenewDeadline, path.Child("renewDeadline"))...)
	errs = append(errs, positive(c.RetryPeriod, path.Child("retryPeriod"))...)
	if c.LeaseDuration != nil && c.RenewDeadline != nil && c.LeaseDuration.Duration <= c.RenewDeadline.Duration {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"), c.LeaseDuration.Duration.String(), "must be longer than renewDeadline"))
	}
	errs = append(errs, supported(c.ResourceLock, path.Child("resourceLock"), "leases")...)
	if c.ResourceName == "" {
		errs = append(errs, field.Required(path.Child("resourceName"), "the Lease that holds the election needs a name"))
	}
	return errs
}

func validateRendering(c configv1alpha1.RenderingConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, family := range c.IPFamilies {
		errs = append(errs, supported(family, path.Child("ipFamilies").Index(i), corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if slices.Contains(c.IPFamilies[:i], family) {
			errs = append(errs, field.Duplicate(path.Child("ipFamilies").Index(i), family))
		}
	}
	for i := range c.NamespaceSelectors {
		if _, err := metav1.LabelSelectorAsSelector(&c.NamespaceSelectors[i]); err != nil {
			errs = append(errs, field.Invalid(path.Child("namespaceSelectors").Index(i), c.NamespaceSelectors[i], err.Error()))
		}
	}
	if c.NetworkPolicies != nil {
		errs = append(errs, validateNetworkPolicies(*c.NetworkPolicies, path.Child("networkPolicies"))...)
	}
	if c.NetworkPolicyScope != "" {
		errs = append(errs, supported(c.NetworkPolicyScope, path.Child("networkPolicyScope"), configv1alpha1.NetworkPolicyScopeAll, configv1alpha1.NetworkPolicyScopeNew)...)
	}
	return errs
}

func validateNetworkPolicies(c configv1alpha1.NetworkPolicyConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(c.Operator) == 0 {
		errs = append(errs, field.Required(path.Child("operator"), "name the pods of the operator: otherwise the policies keep it from every member"))
	}
	for _, list := range []struct {
		name  string
		peers []networkingv1.NetworkPolicyPeer
	}{
		{"operator", c.Operator}, {"clients", c.Clients}, {"monitoring", c.Monitoring}, {"dns", c.DNS}, {"apiServer", c.APIServer}, {"stores", c.Stores},
	} {
		for i, peer := range list.peers {
			errs = append(errs, validatePeer(peer, path.Child(list.name).Index(i))...)
		}
	}
	return errs
}

func validatePeer(peer networkingv1.NetworkPolicyPeer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	hasSelector := peer.PodSelector != nil || peer.NamespaceSelector != nil
	switch {
	case !hasSelector && peer.IPBlock == nil:
		errs = append(errs, field.Required(path, "set podSelector, namespaceSelector or ipBlock"))
	case hasSelector && peer.IPBlock != nil:
		errs = append(errs, field.Invalid(path, peer, "must not set ipBlock and a selector: use two peers"))
	}
	for name, selector := range map[string]*metav1.LabelSelector{"podSelector": peer.PodSelector, "namespaceSelector": peer.NamespaceSelector} {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			errs = append(errs, field.Invalid(path.Child(name), selector, err.Error()))
		}
	}
	if peer.IPBlock != nil {
		errs = append(errs, validateIPBlock(*peer.IPBlock, path.Child("ipBlock"))...)
	}
	return errs
}

// validateIPBlock refuses what the API server would refuse in each NetworkPolicy.
func validateIPBlock(block networkingv1.IPBlock, path *field.Path) field.ErrorList {
	all, err := netip.ParsePrefix(block.CIDR)
	if err != nil {
		return field.ErrorList{field.Invalid(path.Child("cidr"), block.CIDR, "must be an address range, for example 10.0.0.0/8")}
	}
	var errs field.ErrorList
	for i, except := range block.Except {
		if part, err := netip.ParsePrefix(except); err != nil || !all.Contains(part.Addr()) || part.Bits() <= all.Bits() {
			errs = append(errs, field.Invalid(path.Child("except").Index(i), except, "must be an address range in "+block.CIDR))
		}
	}
	return errs
}

func validateEtcdHelper(c configv1alpha1.EtcdHelperConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.ContainsFunc(c.Image, unicode.IsSpace) {
		errs = append(errs, field.Invalid(path.Child("image"), c.Image, "must be a reference to an image, without white space"))
	}
	for i, secret := range c.ImagePullSecrets {
		for _, message := range utilvalidation.IsDNS1123Subdomain(secret.Name) {
			errs = append(errs, field.Invalid(path.Child("imagePullSecrets").Index(i).Child("name"), secret.Name, message))
		}
	}
	return errs
}

// validateRoots refuses directories through which a store could reach more than one folder in one of them.
func validateRoots(roots []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, root := range roots {
		at := path.Index(i)
		switch {
		case root == "/":
			errs = append(errs, field.Invalid(at, root, "must not be the root directory of the node"))
		case !pathpkg.IsAbs(root) || pathpkg.Clean(root) != root:
			errs = append(errs, field.Invalid(at, root, "must be an absolute path without relative segments and without trailing slash"))
		}
		for j, other := range roots {
			switch {
			case j < i && root == other:
				errs = append(errs, field.Duplicate(at, root))
			case strings.HasPrefix(root, other+"/"):
				errs = append(errs, field.Invalid(at, root, "must not be in "+other+", which is listed too: it would be a container there"))
			}
		}
	}
	return errs
}

// validateRestrictions refuses entries that allow no valid value.
func validateRestrictions(c configv1alpha1.RestrictionsConfiguration, path *field.Path) field.ErrorList {
	isKey := func(text string) []string { return utilvalidation.IsQualifiedName(strings.ToLower(text)) } // as the API server checks annotations
	errs := validatePrefixes(c.AllowedAnnotations, path.Child("allowedAnnotations"), isKey)
	errs = append(errs, validatePrefixes(c.AllowedLabels, path.Child("allowedLabels"), isKey)...)
	errs = append(errs, validatePrefixes(c.AllowedPriorityClasses, path.Child("allowedPriorityClasses"), utilvalidation.IsDNS1123Subdomain)...)
	for i, entry := range c.AllowedEndpoints {
		if !isEndpoint(entry) {
			errs = append(errs, field.Invalid(path.Child("allowedEndpoints").Index(i), entry,
				"must be a host name in lower case, *. and a domain, an IP address, or an address range, for example 10.0.0.0/8, without scheme and port"))
		}
	}
	return errs
}

// validatePrefixes refuses an entry if neither the entry nor a value with its prefix is valid. isValid returns what is wrong with a value.
func validatePrefixes(entries []string, path *field.Path, isValid func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for i, entry := range entries {
		value, isPrefix := strings.CutSuffix(entry, "*")
		if isPrefix {
			value += "x"
		}
		if messages := isValid(value); len(messages) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), entry, strings.Join(messages, "; ")+"; only a * at the end is a wildcard"))
		}
	}
	return errs
}

func isEndpoint(entry string) bool {
	_, rangeErr := netip.ParsePrefix(entry)
	_, addressErr := netip.ParseAddr(entry)
	return rangeErr == nil || addressErr == nil || len(utilvalidation.IsDNS1123Subdomain(strings.TrimPrefix(entry, "*."))) == 0
}

// validateWatchNamespaces refuses names that no namespace has, and a policy that concerns the Etcds of all namespaces.
func validateWatchNamespaces(c *configv1alpha1.OperatorConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, namespace := range c.WatchNamespaces {
		for _, message := range utilvalidation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(path.Index(i), namespace, message))
		}
		if slices.Contains(c.WatchNamespaces[:i], namespace) {
			errs = append(errs, field.Duplicate(path.Index(i), namespace))
		}
	}
	if len(c.WatchNamespaces) > 0 && c.Predecessor != configv1alpha1.PredecessorStandBy {
		errs = append(errs, field.Forbidden(path, "predecessor "+string(c.Predecessor)+" concerns the Etcds of all namespaces: leave the list empty"))
	}
	return errs
}

func validateServers(c configv1alpha1.ServerConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Webhooks != nil {
		errs = append(errs, validateServer(c.Webhooks.Server, path.Child("webhooks"))...)
	}
	if c.Metrics != nil {
		errs = append(errs, validateServer(*c.Metrics, path.Child("metrics"))...)
	}
	if c.HealthProbes != nil {
		errs = append(errs, validateServer(*c.HealthProbes, path.Child("healthProbes"))...)
	}
	return errs
}

func validateServer(s configv1alpha1.Server, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Port != -1 && len(utilvalidation.IsValidPortNum(s.Port)) > 0 {
		errs = append(errs, field.Invalid(path.Child("port"), s.Port, "must be between 1 and 65535, or -1 to disable the server"))
	}
	// An IPv6 address has several colons; a single one separates a port, which has a field of its own.
	if strings.Count(s.BindAddress, ":") == 1 {
		errs = append(errs, field.Invalid(path.Child("bindAddress"), s.BindAddress, "must be a host or an IP address without port; the port goes into "+path.Child("port").String()))
	}
	return errs
}

func validateEtcd(c configv1alpha1.EtcdControllerConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, workers(c.ConcurrentSyncs, path.Child("concurrentSyncs"))...)
	errs = append(errs, positive(c.EtcdStatusSyncPeriod, path.Child("etcdStatusSyncPeriod"))...)
	errs = append(errs, positive(c.EtcdMember.NotReadyThreshold, path.Child("etcdMember", "notReadyThreshold"))...)
	errs = append(errs, positive(c.EtcdMember.UnknownThreshold, path.Child("etcdMember", "unknownThreshold"))...)
	if period := c.DataComparisonPeriod; period != nil && period.Duration != 0 && period.Duration < time.Second {
		errs = append(errs, field.Invalid(path.Child("dataComparisonPeriod"), period.Duration.String(), "must be at least 1s; 0s disables the comparison"))
	}
	if timeout := c.StoreTimeout; timeout != nil && timeout.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("storeTimeout"), timeout.Duration.String(), "must not be negative; 0s waits without limit"))
	}
	errs = append(errs, supported(c.DefaultUpdateStrategy, path.Child("defaultUpdateStrategy"), druidv1alpha1.UpdateStrategies...)...)
	if c.NewEtcdVersion != "" {
		errs = append(errs, supported(c.NewEtcdVersion, path.Child("newEtcdVersion"), etcdversion.Supported()...)...)
	}
	errs = append(errs, validateDefragmentation(c.Defragmentation, path.Child("defragmentation"))...)
	errs = append(errs, validateRecovery(c.Recovery, path.Child("recovery"))...)
	errs = append(errs, validateRollout(c.Rollout, path.Child("rollout"))...)
	return errs
}

func validateRollout(c configv1alpha1.RolloutConfiguration, path *field.Path) field.ErrorList {
	errs := append(positive(c.CanaryPeriod, path.Child("canaryPeriod")), positive(c.Timeout, path.Child("timeout"))...)
	if canaries := c.Canaries; canaries != nil && *canaries < 0 {
		errs = append(errs, field.Invalid(path.Child("canaries"), *canaries, "must not be negative; with 0 no Etcd is updated before the others"))
	}
	for name, limit := range map[string]*configv1alpha1.RolloutLimit{"total": c.Total, "perZone": c.PerZone, "perChange": c.PerChange} {
		if limit == nil {
			continue
		}
		if number := limit.Number; number != nil && *number < 1 {
			errs = append(errs, field.Invalid(path.Child(name, "number"), *number, "must be above 0"))
		}
		if percentage := limit.Percentage; percentage != nil && (*percentage < 1 || *percentage > 100) {
			errs = append(errs, field.Invalid(path.Child(name, "percentage"), *percentage, "must be from 1 to 100"))
		}
	}
	return errs
}

func validateDefragmentation(c configv1alpha1.DefragmentationConfiguration, path *field.Path) field.ErrorList {
	errs := positive(c.Window, path.Child("window"))
	if size := c.MinReclaimableSize; size != nil && size.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("minReclaimableSize"), size.String(), "must not be negative"))
	}
	if budget := c.StallBudget; budget != nil && budget.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("stallBudget"), budget.Duration.String(), "must not be negative; 0s is no limit"))
	}
	return errs
}

func validateRecovery(c configv1alpha1.RecoveryConfiguration, path *field.Path) field.ErrorList {
	errs := positive(c.DwellTime, path.Child("dwellTime"))
	if limit := c.MaxClusters; limit != nil && *limit < 0 {
		errs = append(errs, field.Invalid(path.Child("maxClusters"), *limit, "must not be negative; with 0 the operator never chooses an option by itself"))
	}
	return errs
}

func validateTasks(c configv1alpha1.ControllerConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Compaction.Enabled {
		errs = append(errs, validateCompaction(c.Compaction, path.Child("compaction"))...)
	}
	if c.EtcdCopyBackupsTask.Enabled {
		errs = append(errs, workers(c.EtcdCopyBackupsTask.ConcurrentSyncs, path.Child("etcdCopyBackupsTask", "concurrentSyncs"))...)
	}
	errs = append(errs, workers(c.Secret.ConcurrentSyncs, path.Child("secret", "concurrentSyncs"))...)
	errs = append(errs, workers(c.EtcdOpsTask.ConcurrentSyncs, path.Child("etcdOpsTask", "concurrentSyncs"))...)
	errs = append(errs, positive(c.EtcdOpsTask.RequeueInterval, path.Child("etcdOpsTask", "requeueInterval"))...)
	return append(errs, validateRestoreDrill(c.RestoreDrill, path.Child("restoreDrill"))...)
}

func validateRestoreDrill(c configv1alpha1.RestoreDrillControllerConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if period := c.Period; period != nil && period.Duration != 0 && period.Duration < time.Minute {
		errs = append(errs, field.Invalid(path.Child("period"), period.Duration.String(), "must be 0s, which schedules no drills, or at least 1m"))
	}
	return append(errs, workers(c.MaxConcurrentDrills, path.Child("maxConcurrentDrills"))...)
}

func validateCompaction(c configv1alpha1.CompactionControllerConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, workers(c.ConcurrentSyncs, path.Child("concurrentSyncs"))...)
	if c.EventsThreshold <= 0 {
		errs = append(errs, field.Invalid(path.Child("eventsThreshold"), c.EventsThreshold, "must be above 0"))
	}
	if c.TriggerFullSnapshotThreshold <= 0 {
		errs = append(errs, field.Invalid(path.Child("triggerFullSnapshotThreshold"), c.TriggerFullSnapshotThreshold, "must be above 0"))
	}
	errs = append(errs, positive(c.ActiveDeadlineDuration, path.Child("activeDeadlineDuration"))...)
	if c.MetricsScrapeWaitDuration != nil && c.MetricsScrapeWaitDuration.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("metricsScrapeWaitDuration"), c.MetricsScrapeWaitDuration.Duration.String(), "must not be negative"))
	}
	return errs
}

func validateComponentProtection(c configv1alpha1.EtcdComponentProtectionWebhookConfiguration, path *field.Path) field.ErrorList {
	if !c.Enabled {
		return nil
	}

	var errs field.ErrorList
	if (c.ReconcilerServiceAccountFQDN == nil) == (c.ServiceAccountInfo == nil) {
		errs = append(errs, field.Required(path.Child("serviceAccountInfo"), "exactly one of serviceAccountInfo and reconcilerServiceAccountFQDN must be set"))
	}
	if info := c.ServiceAccountInfo; info != nil && (info.Name == "" || info.Namespace == "") {
		errs = append(errs, field.Required(path.Child("serviceAccountInfo"), "name and namespace must be set"))
	}
	errs = append(errs, named(c.ExemptUsers, path.Child("exemptUsers"))...)
	errs = append(errs, named(c.Drainers, path.Child("drainers"))...)
	for i, account := range c.ExemptServiceAccounts {
		if !strings.HasPrefix(account, "system:serviceaccount:") || strings.Count(account, ":") != 3 {
			errs = append(errs, field.Invalid(path.Child("exemptServiceAccounts").Index(i), account, "must be system:serviceaccount:<namespace>:<name>"))
		}
	}
	return errs
}

func named(users []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, user := range users {
		if user == "" {
			errs = append(errs, field.Required(path.Index(i), "a user has a name"))
		}
	}
	return errs
}

func validateFeatureGates(gates map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name := range gates {
		if !slices.Contains(featureGates, name) {
			errs = append(errs, field.NotSupported(path, name, featureGates))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func workers(n *int, path *field.Path) field.ErrorList {
	if n == nil || *n > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *n, "must be above 0")}
}

func positive(d *metav1.Duration, path *field.Path) field.ErrorList {
	if d == nil || d.Duration > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, d.Duration.String(), "must be above 0")}
}

func supported[T ~string](value T, path *field.Path, values ...T) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, values)}
}
