// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

type override = func(*druidv1alpha1.Etcd)

var _ = Describe("ValidateEtcd", func() {
	DescribeTable("accepts",
		func(options ...override) {
			Expect(validation.ValidateEtcd(fixture.Etcd(options...))).To(BeEmpty())
		},
		Entry("a minimal Etcd"),
		Entry("a store and TLS everywhere", fixture.WithStore("S3"), fixture.WithTLS()),
		Entry("TLS for clients only, with which the sidecar then serves", fixture.WithClientTLS()),
		Entry("TLS between members only", fixture.WithPeerTLS()),
		Entry("TLS without names that is switched off", fixture.WithClientTLS(), func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.EnableTLS = new(false)
			e.Spec.Etcd.ClientUrlTLS.TLSCASecretRef.Name = ""
		}),
		Entry("TLS switched on with references", fixture.WithTLS(), func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.EnableTLS = new(true) }),
		Entry("TLS of the sidecar alone where the cluster already ran so", fixture.WithBackupTLS(),
			func(e *druidv1alpha1.Etcd) { e.Status.ObservedGeneration = new(int64(1)) }),
		Entry("a recovery policy in an annotation", fixture.WithAnnotation("druid.gardener.cloud/recovery-policy", "AutoIfNoLoss")),
		Entry("an update strategy in an annotation", fixture.WithAnnotation("druid.gardener.cloud/update-strategy", "Surge")),
		Entry("the longest name", fixture.WithName(strings.Repeat("a", 52))),
		Entry("a name that starts with a digit where no Service is made", fixture.WithName("1test"), externally("10.0.0.1")),
		Entry("addresses of every kind", fixture.WithReplicas(3), externally("10.0.0.1", "node-2", "node.example.com")),
		Entry("another port of the wrapper of externally managed members", externally("10.0.0.1"), wrapperPort(9096)),
		Entry("the port of the wrapper that the sidecar knows", wrapperPort(9095)),
		Entry("URLs of members that exist", fixture.WithReplicas(3), peerURL("test-2")),
		Entry("URLs of members with a prefix", peerURL("eu-test-0"), func(e *druidv1alpha1.Etcd) { e.Spec.MemberNamePrefix = new("eu") }),
		Entry("URLs of members while the cluster hibernates", fixture.WithReplicas(0), peerURL("test-2")),
		Entry("a schedule with a range", schedule("0 8-18 * * 1-5")),
		Entry("a schedule on Sundays", schedule("0 0 * * 0")),
		Entry("a retention in hours", retention("periodic", "1")),
		Entry("no retention", retention("periodic", "0")),
		Entry("no retention of revisions", retention("revision", "0")),
		Entry("the last port that there is", func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.ClientPort = new(int32(65535)) }),
		Entry("a retention in revisions", retention("revision", "1000")),
		Entry("no delta snapshots", func(e *druidv1alpha1.Etcd) { e.Spec.Backup.DeltaSnapshotPeriod = duration(0) }),
		Entry("temporary files in the data volume", func(e *druidv1alpha1.Etcd) { e.Spec.Backup.SnapstoreTempDir = new("/var/etcd/data/tmp/") }),
	)

	DescribeTable("refuses, and names the field",
		func(path, wayOut string, options ...override) {
			errs := validation.ValidateEtcd(fixture.Etcd(options...))

			Expect(errs).To(HaveLen(1))
			Expect(errs[0].Field).To(Equal(path))
			Expect(errs[0].Error()).To(ContainSubstring(wayOut))
			Expect(errs[0].Error()).NotTo(ContainSubstring("hunter2"))
		},
		Entry("an unknown recovery policy", "metadata.annotations[druid.gardener.cloud/recovery-policy]", `"Never", "Ask", "AutoIfNoLoss", "Auto"`, fixture.WithAnnotation("druid.gardener.cloud/recovery-policy", "Always")),
		Entry("an unknown update strategy", "metadata.annotations[druid.gardener.cloud/update-strategy]", `"Surge", "Restart"`, fixture.WithAnnotation("druid.gardener.cloud/update-strategy", "surge")),
		Entry("a name that leaves no room for the hash of a revision", "metadata.name", "52", fixture.WithName(strings.Repeat("a", 53))),
		Entry("a name that no Service can have", "metadata.name", "another name", fixture.WithName("1test")),
		Entry("a name with a dot", "metadata.name", "another name", fixture.WithName("a.b")),

		Entry("a port that there is not", "spec.etcd.clientPort", "between 1 and 65535",
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.ClientPort = new(int32(0)) }),
		Entry("a port beyond the last", "spec.backup.port", "between 1 and 65535",
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Port = new(int32(65536)) }),
		Entry("a port that another server has by default", "spec.backup.port", "spec.etcd.serverPort",
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Port = new(int32(2380)) }),

		Entry("fewer addresses than members", "spec.externallyManagedMemberAddresses", "make them equal", fixture.WithReplicas(3), externally("10.0.0.1")),
		Entry("an address with a port", "spec.externallyManagedMemberAddresses[0]", "without scheme and port", externally("10.0.0.1:2380")),
		Entry("an IPv6 address", "spec.externallyManagedMemberAddresses[1]", "use an IPv4 address or a host name", fixture.WithReplicas(2), externally("10.0.0.1", "fd00::1")),
		Entry("an IPv4 address in the form of IPv6", "spec.externallyManagedMemberAddresses[0]", "use an IPv4 address or a host name", externally("::ffff:10.0.0.1")),
		Entry("a host name that no object can have in its name", "spec.externallyManagedMemberAddresses[0]", "lower case", externally("Node-1")),
		Entry("another port of the wrapper, through which the sidecar would not find it", "spec.etcd.wrapperPort", "remove it", wrapperPort(9096)),
		Entry("URLs of a member that does not exist", "spec.etcd.additionalAdvertisePeerURLs[0].memberName", "test-0", peerURL("test-1")),

		Entry("user info in a further peer URL", "spec.etcd.additionalAdvertisePeerURLs[0].urls[0]", "must not have user info", func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: "test-0", URLs: []string{"http://user:hunter2@10.0.0.1:2380"}}}
		}),
		Entry("user info in a peer URL of the cluster to join", "spec.etcd.bootstrapWithExistingCluster.members[0].peerUrls[1]", "must not have user info", bootstrap("http://10.0.0.1:2379", "http://10.0.0.1:2380", "http://user:hunter2@a:2380")),
		Entry("user info in a client endpoint of the cluster to join", "spec.etcd.bootstrapWithExistingCluster.clientEndpoints[0]", "must not have user info", bootstrap("http://user:hunter2@10.0.0.1:2379", "http://10.0.0.1:2380")),
		Entry("two URLs in a peer URL of the cluster to join", "spec.etcd.bootstrapWithExistingCluster.members[0].peerUrls[0]", "must not have a comma", bootstrap("http://10.0.0.1:2379", "http://10.0.0.1:2380/,http://10.0.0.2:2380")),
		Entry("user info in the endpoint of the store", "spec.backup.store.endpointOverride", "must not have user info", fixture.WithStore("S3"), func(e *druidv1alpha1.Etcd) {
			e.Spec.Backup.Store.EndpointOverride = new("https://user:hunter2@s3.example.com")
		}),
		Entry("user info in an endpoint of the store without scheme", "spec.backup.store.endpointOverride", "must not have user info", fixture.WithStore("S3"), func(e *druidv1alpha1.Etcd) {
			e.Spec.Backup.Store.EndpointOverride = new("user:hunter2@s3.example.com//x")
		}),
		Entry("user info in an address", "spec.externallyManagedMemberAddresses[0]", "must not have user info", externally("user:hunter2@10.0.0.1")),

		Entry("no CA", "spec.etcd.clientUrlTls.tlsCASecretRef.name", "enableTLS to false", fixture.WithClientTLS(),
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.ClientUrlTLS.TLSCASecretRef.Name = "" }),
		Entry("no server certificate", "spec.etcd.peerUrlTls.serverTLSSecretRef.name", "name the Secret", fixture.WithPeerTLS(),
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.PeerUrlTLS.ServerTLSSecretRef.Name = "" }),
		Entry("no client certificate", "spec.etcd.clientUrlTls.clientTLSSecretRef.name", "name the Secret", fixture.WithClientTLS(),
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.ClientUrlTLS.ClientTLSSecretRef.Name = "" }),
		Entry("no server certificate of the sidecar", "spec.backup.tls.serverTLSSecretRef.name", "name the Secret", fixture.WithTLS(),
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.TLS.ServerTLSSecretRef.Name = "" }),

		Entry("a schedule whose range descends", "spec.backup.fullSnapshotSchedule", "cannot read it", schedule("0 18-8 * * *")),
		Entry("a schedule on the seventh day", "spec.backup.fullSnapshotSchedule", "0 is Sunday", schedule("0 0 * * 7")),
		Entry("a schedule of defragmentation that is none", "spec.etcd.defragmentationSchedule", "cannot read it",
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.DefragmentationSchedule = new("daily") }),
		Entry("a token with a character that YAML forbids", "spec.etcd.initialClusterToken", "remove them",
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.InitialClusterToken = new("\x7ftoken") }),
		Entry("a retention that is no time", "spec.sharedConfig.autoCompactionRetention", "such as 30m", retention("periodic", "soon")),
		Entry("a negative retention", "spec.sharedConfig.autoCompactionRetention", "such as 30m", retention("periodic", "-1")),
		Entry("a negative time of retention", "spec.sharedConfig.autoCompactionRetention", "such as 30m", retention("periodic", "-30m")),
		Entry("a time as a number of revisions", "spec.sharedConfig.autoCompactionRetention", "number of revisions", retention("revision", "30m")),
		Entry("the default retention, a time, as a number of revisions", "spec.sharedConfig.autoCompactionRetention", "number of revisions",
			func(e *druidv1alpha1.Etcd) { e.Spec.Common.AutoCompactionMode = new(druidv1alpha1.Revision) }),

		Entry("a version of etcd without images", "spec.etcd.version", `supported values: "3.4", "3.5"`, func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.Version = new("3.6") }),
		Entry("a patch version of etcd", "spec.etcd.version", `supported values: "3.4", "3.5"`, func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.Version = new("3.5.27") }),
		Entry("an empty image of etcd", "spec.etcd.image", "remove the field", func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.Image = new("") }),
		Entry("an empty image of the sidecar", "spec.backup.image", "remove the field", func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Image = new("") }),
		Entry("garbage collection as often as delta snapshots", "spec.backup.garbageCollectionPeriod", "spec.backup.deltaSnapshotPeriod",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Backup.GarbageCollectionPeriod, e.Spec.Backup.DeltaSnapshotPeriod = duration(time.Minute), duration(time.Minute)
			}),
		Entry("temporary files outside of the data volume", "spec.backup.snapstoreTempDir", "/var/etcd/data",
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.SnapstoreTempDir = new("/var/etcd/data/../../tmp") }),
		Entry("temporary files outside of the data volume", "spec.backup.snapstoreTempDir", "/var/etcd/data",
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.SnapstoreTempDir = new("/var/etcd/database") }),
		Entry("temporary files in the data directory", "spec.backup.snapstoreTempDir", "the sidecar deletes the directory at each start, and new.etcd has another purpose",
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.SnapstoreTempDir = new("/var/etcd/data/new.etcd") }),
		Entry("temporary files below the data directory", "spec.backup.snapstoreTempDir", "the sidecar deletes the directory at each start, and new.etcd has another purpose",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Backup.SnapstoreTempDir = new("/var/etcd/data/temp/../new.etcd/member/")
			}),
		Entry("temporary files in a file of the sidecar", "spec.backup.snapstoreTempDir", "safe_guard has another purpose",
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.SnapstoreTempDir = new("/var/etcd/data/safe_guard") }),
		Entry("a prefix that leaves the container", "spec.backup.store.prefix", "leave out", fixture.WithStore("S3"),
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Store.Prefix = "a/../../b" }),
	)

	It("accepts deprecated fields after Canonical", func() {
		canonical, errs := helper.Canonical(fixture.Etcd(func(e *druidv1alpha1.Etcd) {
			e.Spec.TLSServerSecret, e.Spec.TLSClientSecret = new("server"), new("client")
		}))
		Expect(errs).To(BeEmpty())
		Expect(validation.ValidateEtcd(canonical)).To(BeEmpty())
	})
})

var _ = Describe("ValidateSize", func() {
	DescribeTable("lets pass",
		func(last, size int32, options ...override) {
			Expect(validation.ValidateSize(fixture.Etcd(append(options, fixture.WithReplicas(size))...), last)).To(BeEmpty())
		},
		Entry("a first member", int32(0), int32(1)),
		Entry("seven first members", int32(0), int32(7)),
		Entry("a scale-up", int32(1), int32(3)),
		Entry("hibernation", int32(3), int32(0)),
		Entry("waking up with the size from before", int32(3), int32(3)),
		Entry("an even size that the cluster already has", int32(2), int32(2)),
		Entry("hibernation from an even size", int32(2), int32(0)),
		Entry("any number of members that are managed externally", int32(0), int32(2), externally("10.0.0.1", "10.0.0.2")),
		Entry("any number of members that are managed externally by the deprecated annotation", int32(3), int32(2),
			fixture.WithAnnotation("druid.gardener.cloud/disable-etcd-runtime-component-creation", "")),
	)

	DescribeTable("refuses",
		func(last, size int32, message string) {
			errs := validation.ValidateSize(fixture.Etcd(fixture.WithReplicas(size)), last)
			Expect(errs).To(ConsistOf(And(
				HaveField("Field", "spec.replicas"),
				HaveField("Detail", ContainSubstring(message)),
			)))
		},
		Entry("an even size", int32(0), int32(2), "0, 1, 3, 5 or 7"),
		Entry("more than seven", int32(7), int32(9), "0, 1, 3, 5 or 7"),
		Entry("less than none", int32(0), int32(-1), "0, 1, 3, 5 or 7"),
		Entry("an even size below the last one", int32(3), int32(2), "0, 1, 3, 5 or 7"),
	)
})

func externally(addresses ...string) override {
	return func(e *druidv1alpha1.Etcd) { e.Spec.ExternallyManagedMemberAddresses = addresses }
}

func bootstrap(clientEndpoint string, peerURLs ...string) override {
	return func(e *druidv1alpha1.Etcd) {
		e.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
			Members: []druidv1alpha1.BootstrapExistingMember{{Name: "source-0", PeerURLs: peerURLs}}, ClientEndpoints: []string{clientEndpoint},
		}
	}
}

func wrapperPort(port int32) override {
	return func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.WrapperPort = &port }
}

func peerURL(member string) override {
	return func(e *druidv1alpha1.Etcd) {
		e.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: member, URLs: []string{"http://10.0.0.1:2380"}}}
	}
}

func schedule(schedule string) override {
	return func(e *druidv1alpha1.Etcd) { e.Spec.Backup.FullSnapshotSchedule = &schedule }
}

func retention(mode druidv1alpha1.CompactionMode, retention string) override {
	return func(e *druidv1alpha1.Etcd) {
		e.Spec.Common.AutoCompactionMode, e.Spec.Common.AutoCompactionRetention = &mode, &retention
	}
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
