// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1/validation"
)

// networkPolicies configures NetworkPolicies with a change.
func networkPolicies(mutate func(*configv1alpha1.NetworkPolicyConfiguration)) func(*configv1alpha1.OperatorConfiguration) {
	return func(c *configv1alpha1.OperatorConfiguration) {
		c.Rendering.NetworkPolicies = &configv1alpha1.NetworkPolicyConfiguration{Operator: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}
		mutate(c.Rendering.NetworkPolicies)
	}
}

var _ = Describe("ValidateOperatorConfiguration", func() {
	validate := func(mutate func(*configv1alpha1.OperatorConfiguration)) field.ErrorList {
		config := &configv1alpha1.OperatorConfiguration{}
		configv1alpha1.SetDefaults(config)
		mutate(config)
		return validation.ValidateOperatorConfiguration(config)
	}

	It("should accept the defaults", func() {
		Expect(validate(func(*configv1alpha1.OperatorConfiguration) {})).To(BeEmpty())
	})

	It("should not validate a disabled leader election", func() {
		Expect(validate(func(c *configv1alpha1.OperatorConfiguration) {
			c.LeaderElection.Enabled = new(false)
			c.LeaderElection.ResourceName = ""
		})).To(BeEmpty())
	})

	It("should accept an IPv6 bind address and a server that is switched off", func() {
		Expect(validate(func(c *configv1alpha1.OperatorConfiguration) {
			c.Server.Metrics.BindAddress = "fd00::1"
			c.Server.HealthProbes.Port = -1
		})).To(BeEmpty())
	})

	It("should accept both IP families and a namespace selector", func() {
		Expect(validate(func(c *configv1alpha1.OperatorConfiguration) {
			c.Rendering.IPFamilies = []corev1.IPFamily{"IPv6", "IPv4"}
			c.Rendering.NamespaceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"gardener.cloud/role": "extension"}}}
		})).To(BeEmpty())
	})

	It("should accept peers of NetworkPolicies", func() {
		Expect(validate(networkPolicies(func(c *configv1alpha1.NetworkPolicyConfiguration) {
			c.Clients = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}, {NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &metav1.LabelSelector{}}}
			c.Stores = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "203.0.113.0/24", Except: []string{"203.0.113.128/25"}}}, {IPBlock: &networkingv1.IPBlock{CIDR: "2001:db8::/32"}}}
		}))).To(BeEmpty())
	})

	It("should accept directories of Local stores next to each other", func() {
		Expect(validate(func(c *configv1alpha1.OperatorConfiguration) {
			c.LocalStore.Roots = []string{"/etc/gardener/local-backupbuckets", "/srv/backups", "/srv/backups-2"}
		})).To(BeEmpty())
	})

	It("should accept restrictions", func() {
		Expect(validate(func(c *configv1alpha1.OperatorConfiguration) {
			c.Restrictions = configv1alpha1.RestrictionsConfiguration{
				AllowedAnnotations: []string{"*", "example.com/*", "example.com/Key", "Example.com/key", "team-*"}, AllowedLabels: []string{},
				AllowedPriorityClasses: []string{"high", "team-*", "team.*"},
				AllowedEndpoints:       []string{"etcd", "etcd.example.com", "*.example.com", "10.0.0.1", "10.0.0.0/8", "fd00::1", "fd00::/8"},
			}
		})).To(BeEmpty())
	})

	It("should accept a list of namespaces", func() {
		Expect(validate(func(c *configv1alpha1.OperatorConfiguration) {
			c.WatchNamespaces = []string{"team-a", "team-b"}
		})).To(BeEmpty())
	})

	DescribeTable("configurations that are refused",
		func(path string, mutate func(*configv1alpha1.OperatorConfiguration)) {
			Expect(validate(mutate)).To(ConsistOf(HaveField("Field", path)))
		},
		Entry("a relative directory of Local stores", "localStore.roots[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.LocalStore.Roots = []string{"srv/backups"}
		}),
		Entry("a directory of Local stores with a path that leaves it", "localStore.roots[1]", func(c *configv1alpha1.OperatorConfiguration) {
			c.LocalStore.Roots = []string{"/srv/backups", "/mnt/../etc"}
		}),
		Entry("a directory of Local stores with a trailing slash", "localStore.roots[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.LocalStore.Roots = []string{"/srv/backups/"}
		}),
		Entry("an empty directory of Local stores", "localStore.roots[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.LocalStore.Roots = []string{""}
		}),
		Entry("the whole node as directory of Local stores", "localStore.roots[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.LocalStore.Roots = []string{"/"}
		}),
		Entry("a directory of Local stores twice", "localStore.roots[1]", func(c *configv1alpha1.OperatorConfiguration) {
			c.LocalStore.Roots = []string{"/srv/backups", "/srv/backups"}
		}),
		Entry("a directory of Local stores in another one", "localStore.roots[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.LocalStore.Roots = []string{"/srv/backups/nested", "/srv/backups"}
		}),
		Entry("an empty key of an annotation", "restrictions.allowedAnnotations[1]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Restrictions.AllowedAnnotations = []string{"a", ""}
		}),
		Entry("a wildcard before the end of a key", "restrictions.allowedAnnotations[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Restrictions.AllowedAnnotations = []string{"*/role"}
		}),
		Entry("a prefix that no label has", "restrictions.allowedLabels[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Restrictions.AllowedLabels = []string{"example.com/a/*"}
		}),
		Entry("a name that no PriorityClass has", "restrictions.allowedPriorityClasses[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Restrictions.AllowedPriorityClasses = []string{"High"}
		}),
		Entry("an endpoint with a scheme", "restrictions.allowedEndpoints[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Restrictions.AllowedEndpoints = []string{"http://etcd"}
		}),
		Entry("an endpoint with a port", "restrictions.allowedEndpoints[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Restrictions.AllowedEndpoints = []string{"etcd:2379"}
		}),
		Entry("an endpoint with a wildcard at its end", "restrictions.allowedEndpoints[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Restrictions.AllowedEndpoints = []string{"10.0.0.*"}
		}),
		Entry("all endpoints", "restrictions.allowedEndpoints[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Restrictions.AllowedEndpoints = []string{"*"}
		}),
		Entry("white space in the image of etcd-helper", "etcdHelper.image", func(c *configv1alpha1.OperatorConfiguration) {
			c.EtcdHelper.Image = "registry.example.com/operator: v1"
		}),
		Entry("a pull secret without a name", "etcdHelper.imagePullSecrets[1].name", func(c *configv1alpha1.OperatorConfiguration) {
			c.EtcdHelper.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}, {}}
		}),
		Entry("a negative burst", "clientConnection.burst", func(c *configv1alpha1.OperatorConfiguration) {
			c.ClientConnection.Burst = -1
		}),
		Entry("a lease that runs out before it can be renewed", "leaderElection.leaseDuration", func(c *configv1alpha1.OperatorConfiguration) {
			c.LeaderElection.LeaseDuration = &metav1.Duration{Duration: 5 * time.Second}
		}),
		Entry("an election over something other than leases", "leaderElection.resourceLock", func(c *configv1alpha1.OperatorConfiguration) {
			c.LeaderElection.ResourceLock = "configmaps"
		}),
		Entry("an election without a name", "leaderElection.resourceName", func(c *configv1alpha1.OperatorConfiguration) {
			c.LeaderElection.ResourceName = ""
		}),
		Entry("a port above 65535", "server.metrics.port", func(c *configv1alpha1.OperatorConfiguration) {
			c.Server.Metrics.Port = 70000
		}),
		Entry("a bind address that carries a port", "server.healthProbes.bindAddress", func(c *configv1alpha1.OperatorConfiguration) {
			c.Server.HealthProbes.BindAddress = "0.0.0.0:8081"
		}),
		Entry("contention profiling without profiling", "debugging.enableContentionProfiling", func(c *configv1alpha1.OperatorConfiguration) {
			c.Debugging.EnableContentionProfiling = true
		}),
		Entry("a watched namespace with an invalid name", "watchNamespaces[1]", func(c *configv1alpha1.OperatorConfiguration) {
			c.WatchNamespaces = []string{"team-a", "*"}
		}),
		Entry("a watched namespace that is listed twice", "watchNamespaces[1]", func(c *configv1alpha1.OperatorConfiguration) {
			c.WatchNamespaces = []string{"team-a", "team-a"}
		}),
		Entry("watched namespaces with a takeover of all Etcds", "watchNamespaces", func(c *configv1alpha1.OperatorConfiguration) {
			c.WatchNamespaces = []string{"team-a"}
			c.Predecessor = configv1alpha1.PredecessorTakeOver
		}),
		Entry("no workers for Etcds", "controllers.etcd.concurrentSyncs", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.ConcurrentSyncs = new(0)
		}),
		Entry("a sync period of zero", "controllers.etcd.etcdStatusSyncPeriod", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.EtcdStatusSyncPeriod = &metav1.Duration{}
		}),
		Entry("a threshold of zero", "controllers.etcd.etcdMember.unknownThreshold", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.EtcdMember.UnknownThreshold = &metav1.Duration{}
		}),
		Entry("a period without a pause between the comparisons of the data", "controllers.etcd.dataComparisonPeriod", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.DataComparisonPeriod = &metav1.Duration{Duration: time.Millisecond}
		}),
		Entry("a negative period of the comparisons of the data", "controllers.etcd.dataComparisonPeriod", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.DataComparisonPeriod = &metav1.Duration{Duration: -time.Second}
		}),
		Entry("a negative timeout of the store", "controllers.etcd.storeTimeout", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.StoreTimeout = &metav1.Duration{Duration: -time.Second}
		}),
		Entry("a window of zero", "controllers.etcd.defragmentation.window", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.Defragmentation.Window = &metav1.Duration{}
		}),
		Entry("a negative size", "controllers.etcd.defragmentation.minReclaimableSize", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.Defragmentation.MinReclaimableSize = resource.NewQuantity(-1, resource.BinarySI)
		}),
		Entry("a negative budget", "controllers.etcd.defragmentation.stallBudget", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.Defragmentation.StallBudget = &metav1.Duration{Duration: -time.Second}
		}),
		Entry("no dwell time", "controllers.etcd.recovery.dwellTime", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.Recovery.DwellTime = &metav1.Duration{}
		}),
		Entry("no slots", "controllers.etcd.rollout.total.number", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.Rollout.Total = &configv1alpha1.RolloutLimit{Number: new(0)}
		}),
		Entry("a percentage above 100", "controllers.etcd.rollout.perZone.percentage", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.Rollout.PerZone = &configv1alpha1.RolloutLimit{Percentage: new(101)}
		}),
		Entry("a negative number of canaries", "controllers.etcd.rollout.canaries", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.Rollout.Canaries = new(-1)
		}),
		Entry("no canary period", "controllers.etcd.rollout.canaryPeriod", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.Rollout.CanaryPeriod = &metav1.Duration{}
		}),
		Entry("a negative number of clusters", "controllers.etcd.recovery.maxClusters", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.Recovery.MaxClusters = new(-1)
		}),
		Entry("an unknown update strategy", "controllers.etcd.defaultUpdateStrategy", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.DefaultUpdateStrategy = "Recreate"
		}),
		Entry("an unknown version of etcd", "controllers.etcd.newEtcdVersion", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Etcd.NewEtcdVersion = "3.6"
		}),
		Entry("a period of restore drills that is too short", "controllers.restoreDrill.period", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.RestoreDrill.Period = &metav1.Duration{Duration: time.Second}
		}),
		Entry("no concurrent restore drill", "controllers.restoreDrill.maxConcurrentDrills", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.RestoreDrill.MaxConcurrentDrills = new(0)
		}),
		Entry("a negative compaction threshold", "controllers.compaction.eventsThreshold", func(c *configv1alpha1.OperatorConfiguration) {
			c.Controllers.Compaction.Enabled = true
			c.Controllers.Compaction.EventsThreshold = -1
		}),
		Entry("a webhook that does not know the operator's account", "webhooks.etcdComponentProtection.serviceAccountInfo", func(c *configv1alpha1.OperatorConfiguration) {
			c.Webhooks.EtcdComponentProtection.Enabled = true
		}),
		Entry("an exempt account that is no service account", "webhooks.etcdComponentProtection.exemptServiceAccounts[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Webhooks.EtcdComponentProtection.Enabled = true
			c.Webhooks.EtcdComponentProtection.ServiceAccountInfo = &configv1alpha1.ServiceAccountInfo{Name: "a", Namespace: "b"}
			c.Webhooks.EtcdComponentProtection.ExemptServiceAccounts = []string{"admin"}
		}),
		Entry("a drainer without a name", "webhooks.etcdComponentProtection.drainers[1]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Webhooks.EtcdComponentProtection.Enabled = true
			c.Webhooks.EtcdComponentProtection.ServiceAccountInfo = &configv1alpha1.ServiceAccountInfo{Name: "a", Namespace: "b"}
			c.Webhooks.EtcdComponentProtection.Drainers = []string{"drainer", ""}
		}),
		Entry("an exempt user without a name", "webhooks.etcdComponentProtection.exemptUsers[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Webhooks.EtcdComponentProtection.Enabled = true
			c.Webhooks.EtcdComponentProtection.ServiceAccountInfo = &configv1alpha1.ServiceAccountInfo{Name: "a", Namespace: "b"}
			c.Webhooks.EtcdComponentProtection.ExemptUsers = []string{""}
		}),
		Entry("a feature gate that does not exist", "featureGates", func(c *configv1alpha1.OperatorConfiguration) {
			c.FeatureGates = map[string]bool{"UseEtcdWrapper": true}
		}),
		Entry("an IP family that does not exist", "rendering.ipFamilies[1]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Rendering.IPFamilies = []corev1.IPFamily{"IPv4", "IPv5"}
		}),
		Entry("NetworkPolicies for a set of Etcds that does not exist", "rendering.networkPolicyScope", func(c *configv1alpha1.OperatorConfiguration) {
			c.Rendering.NetworkPolicyScope = "Some"
		}),
		Entry("an IP family twice", "rendering.ipFamilies[1]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Rendering.IPFamilies = []corev1.IPFamily{"IPv6", "IPv6"}
		}),
		Entry("a namespace selector with an operator that does not exist", "rendering.namespaceSelectors[0]", func(c *configv1alpha1.OperatorConfiguration) {
			c.Rendering.NamespaceSelectors = []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}}
		}),
		Entry("NetworkPolicies without the operator", "rendering.networkPolicies.operator", networkPolicies(func(c *configv1alpha1.NetworkPolicyConfiguration) { c.Operator = nil })),
		Entry("a peer that selects nothing", "rendering.networkPolicies.clients[0]", networkPolicies(func(c *configv1alpha1.NetworkPolicyConfiguration) { c.Clients = []networkingv1.NetworkPolicyPeer{{}} })),
		Entry("a peer with addresses and a selector", "rendering.networkPolicies.monitoring[0]", networkPolicies(func(c *configv1alpha1.NetworkPolicyConfiguration) {
			c.Monitoring = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}, IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}}
		})),
		Entry("a peer whose selector has an operator that does not exist", "rendering.networkPolicies.dns[0].podSelector", networkPolicies(func(c *configv1alpha1.NetworkPolicyConfiguration) {
			c.DNS = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}}}
		})),
		Entry("a peer with a single address", "rendering.networkPolicies.apiServer[0].ipBlock.cidr", networkPolicies(func(c *configv1alpha1.NetworkPolicyConfiguration) {
			c.APIServer = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.1"}}}
		})),
		Entry("an exception outside of the addresses", "rendering.networkPolicies.stores[0].ipBlock.except[0]", networkPolicies(func(c *configv1alpha1.NetworkPolicyConfiguration) {
			c.Stores = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"11.0.0.0/16"}}}}
		})),
		Entry("a log level that does not exist", "logging.logLevel", func(c *configv1alpha1.OperatorConfiguration) {
			c.Logging.LogLevel = "trace"
		}),
	)
})
