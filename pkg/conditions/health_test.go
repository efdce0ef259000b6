// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// lease gives a member a Lease with a renewal of the given age, and removes the response of its etcd.
func lease(ordinal int, name, holder string, age time.Duration) func(*conditions.Input) {
	return func(in *conditions.Input) {
		in.Observation.Etcd.Members[ordinal] = etcdcluster.EndpointStatus{Ordinal: ordinal}
		in.Observation.MemberLeases = append(in.Observation.MemberLeases, etcdcluster.Lease{Exists: true, Name: name, Holder: holder, RenewTime: noon.Add(-age)})
	}
}

func all(changes ...func(*conditions.Input)) func(*conditions.Input) {
	return func(in *conditions.Input) {
		for _, change := range changes {
			change(in)
		}
	}
}

func podNotReady(ordinal int) func(*conditions.Input) {
	return func(in *conditions.Input) {
		in.Observation.Pods[ordinal].Ready, in.Observation.Pods[ordinal].ContainersReady = false, false
	}
}

// alone keeps the first of three members, with a member list of these voting members.
func alone(voters ...string) func(*conditions.Input) {
	return func(in *conditions.Input) {
		in.Observation.Etcd.Members = in.Observation.Etcd.Members[:1]
		in.Observation.Pods = in.Observation.Pods[:1]
		for _, name := range voters {
			listed(etcdcluster.ListedMember{Name: name})(in)
		}
	}
}

// listed adds a member to the member list.
func listed(member etcdcluster.ListedMember) func(*conditions.Input) {
	return func(in *conditions.Input) {
		in.Observation.Etcd.MemberList = append(in.Observation.Etcd.MemberList, member)
	}
}

var _ = DescribeTable("Ready and AllMembersReady",
	func(change func(*conditions.Input), ready, all string) {
		in := healthy(change)
		Expect(statusAndReason(conditions.Ready(in))).To(Equal(ready))
		Expect(statusAndReason(conditions.AllMembersReady(in))).To(Equal(all))
	},
	Entry("all members are healthy", func(*conditions.Input) {}, "True Quorate", "True AllMembersReady"),
	Entry("one of three has no heartbeat any more: two are a quorum",
		lease(2, "main-2", "3:7:Member", 10*time.Minute), "True Quorate", "False NotAllMembersReady"),
	Entry("one of three has peer TLS, and the leader has not: it may wait for a raft snapshot", func(in *conditions.Input) {
		in.Observation.Etcd.Members[2] = etcdcluster.EndpointStatus{Ordinal: 2}
		in.Observation.Pods[2].PeerTLS, in.Observation.Pods[2].Ready, in.Observation.Pods[2].ContainersReady = true, false, false
		in.Observation.Pods[2].Containers = []etcdcluster.Container{{Name: etcdcluster.ContainerEtcd, State: etcdcluster.ContainerRunning}}
	}, "True Quorate", "False RaftSnapshotBlocked"),
	Entry("two of three are unknown: that is not a quorum, and not its loss",
		all(lease(1, "main-1", "2:7:Member", 2*time.Minute), lease(2, "main-2", "3:7:Member", 2*time.Minute)), "Unknown Unknown", "False NotAllMembersReady"),
	Entry("two of three are down", all(lease(1, "main-1", "2:7:Member", 0), podNotReady(1), lease(2, "main-2", "3:7:Member", 0), podNotReady(2)),
		"False QuorumLost", "False NotAllMembersReady"),
	Entry("one of three was observed without a member list: the size in the spec applies", alone(), "False QuorumLost", "False NotAllMembersReady"),
	Entry("one of three voting members was observed", alone("main-0", "main-1", "main-2"), "False QuorumLost", "False NotAllMembersReady"),
	Entry("scale-up from one to three: the only voting member is a quorum", alone("main-0"), "True Quorate", "False NotAllMembersReady"),
	Entry("scale-up from one to three: the first learner catches up", all(alone("main-0"), listed(etcdcluster.ListedMember{Name: "main-1", Learner: true})),
		"True Quorate", "False NotAllMembersReady"),
	Entry("the second voting member of three is not healthy", alone("main-0", "main-1"), "False QuorumLost", "False NotAllMembersReady"),
	Entry("the only voting member is not healthy", all(alone("main-0"), func(in *conditions.Input) { in.Observation.Etcd.Members[0].Healthy = false }),
		"False QuorumLost", "False NotAllMembersReady"),
	Entry("the first member joins an existing cluster, whose voting members do not count", all(alone("main-0", "theirs-0", "theirs-1", "theirs-2"), func(in *conditions.Input) {
		in.Etcd.Status.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingClusterStatus{
			Members: []druidv1alpha1.BootstrapJoinedMember{{Name: "theirs-0"}, {Name: "theirs-1"}, {Name: "theirs-2"}},
		}
	}), "True Quorate", "False NotAllMembersReady"),
	Entry("no member was observed", withoutResponses, "Unknown NoMembersInStatus", "Unknown NoMembersInStatus"),
	Entry("a learner does not count", func(in *conditions.Input) {
		in.Observation.Etcd.Members[2] = etcdcluster.EndpointStatus{Ordinal: 2, Reachable: true, Learner: true}
	}, "True Quorate", "False NotAllMembersReady"),
)

// The rows of the table in docs/operations/conditions.md.
var _ = DescribeTable("Ready is what clients see",
	func(change func(*conditions.Input), expected, message string) {
		ready := conditions.Ready(healthy(change))
		Expect(statusAndReason(ready)).To(Equal(expected))
		Expect(ready.Message).To(ContainSubstring(message))
	},
	Entry("a quorum is healthy, and a pod is ready", all(podNotReady(0), podNotReady(1)), "True Quorate", "3 of 3 members are healthy, the quorum is 2"),
	Entry("a scale-up of a cluster that clients use", alone("main-0"), "True Quorate", "1 of 1 members are healthy, the quorum is 1"),
	Entry("the first member of a new cluster", all(creating, alone("main-0")), "False Creating", "1 of 3 members are healthy, the quorum is 2; the others of 3 are not voting members yet"),
	Entry("the first member of a cluster that was created hibernated, at its first wake-up", all(wakingFirst, alone("main-0")), "False Creating",
		"1 of 3 members are healthy, the quorum is 2; the others of 3 are not voting members yet"),
	Entry("the second voting member of a new cluster", all(creating, func(in *conditions.Input) {
		in.Observation.Etcd.MemberList = []etcdcluster.ListedMember{{ID: 1, Name: "main-0"}, {ID: 2, Name: "main-1"}, {ID: 3, Name: "main-2", Learner: true}}
		in.Observation.Etcd.Members[2] = etcdcluster.EndpointStatus{Ordinal: 2, Reachable: true, Learner: true}
	}), "True Quorate", "2 of 3 members are healthy, the quorum is 2"),
	Entry("a new single member", all(creating, func(in *conditions.Input) {
		in.Etcd.Spec.Replicas, in.Observation.Pods, in.Observation.Etcd.Members = 1, in.Observation.Pods[:1], in.Observation.Etcd.Members[:1]
	}), "True Quorate", "1 of 1 members are healthy, the quorum is 1"),
	Entry("no quorum is healthy", all(lease(1, "main-1", "2:7:Member", 0), podNotReady(1), lease(2, "main-2", "3:7:Member", 0), podNotReady(2)),
		"False QuorumLost", "1 of 3 members are healthy, the quorum is 2"),
	Entry("the operator cannot reach a quorum", all(lease(1, "main-1", "2:7:Member", 2*time.Minute), lease(2, "main-2", "3:7:Member", 2*time.Minute)),
		"Unknown Unknown", "not known of main-1, main-2"),
	Entry("no pod is an endpoint of the client Service", func(in *conditions.Input) {
		in.Observation.Pods[0].Ready, in.Observation.Pods[1].Deleting, in.Observation.Pods[2].Excluded = false, true, true
	}, "False NoReadyEndpoint", "3 of 3 members are healthy, the quorum is 2; no pod is ready, so that the client Service has no endpoint"),
	Entry("authentication refuses the read of the readiness probe", all(podNotReady(0), podNotReady(1), podNotReady(2), func(in *conditions.Input) {
		in.Observation.Etcd.Members[1].ReadRefused = true
	}), "False AuthenticationRequired", "etcd refuses reads without a user, also those of the readiness probes: disable the authentication of etcd"),
	Entry("authentication of clients that have users", func(in *conditions.Input) { in.Observation.Etcd.Members[1].ReadRefused = true }, "True Quorate", ""),
	Entry("no client can verify the certificates of the members", unverified(0, 1, 2), "False CertificatesInvalid",
		"No client can complete a TLS handshake with a member: x509: certificate has expired"),
	Entry("clients can verify the certificate of one member", unverified(0), "True Quorate", ""),
	Entry("the pods cannot be read", all(failing(etcdcluster.SectionPods), func(in *conditions.Input) { in.Observation.Pods = nil }), "True Quorate", ""),
	Entry("the members are managed externally", func(in *conditions.Input) {
		in.Observation.Pods, in.Etcd.Spec.ExternallyManagedMemberAddresses = nil, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
	}, "True Quorate", ""),
)

// wakingFirst is the first wake-up of a cluster that was created without members.
func wakingFirst(in *conditions.Input) {
	in.Etcd.Status.LastOperation = &druidv1alpha1.LastOperation{Type: druidv1alpha1.LastOperationTypeCreate, State: druidv1alpha1.LastOperationStateRequeue}
}

func creating(in *conditions.Input) { in.Etcd.Status.ObservedGeneration = nil }

// unverified makes TLS handshakes with members fail. Their Leases are renewed.
func unverified(ordinals ...int) func(*conditions.Input) {
	return func(in *conditions.Input) {
		for _, ordinal := range ordinals {
			name := in.Observation.Pods[ordinal].Name
			lease(ordinal, name, fmt.Sprintf("%d:7:Member", ordinal+1), 0)(in)
			in.Observation.Etcd.Members[ordinal] = etcdcluster.EndpointStatus{Ordinal: ordinal, HandshakeFailed: true, Error: "x509: certificate has expired"}
		}
	}
}

var _ = Describe("messages", func() {
	It("have the quorum calculation and the problems of pods", func() {
		in := healthy(all(lease(1, "main-1", "2:7:Member", 0), podNotReady(1), lease(2, "main-2", "3:7:Member", 0), podNotReady(2), func(in *conditions.Input) {
			in.Observation.Pods[1].Containers = []etcdcluster.Container{{Name: "etcd", State: "Waiting", Reason: "CrashLoopBackOff", LastTerminationReason: "OOMKilled"}}
		}))
		Expect(conditions.Ready(in).Message).To(Equal(
			"1 of 3 members are healthy, the quorum is 2: container etcd of pod main-1 waits: CrashLoopBackOff (ended before: OOMKilled)"))
	})

	It("report learners during a scale-up", func() {
		Expect(conditions.Ready(healthy(alone("main-0"))).Message).To(Equal("1 of 1 members are healthy, the quorum is 1; the others of 3 are not voting members yet"))
	})
})

var _ = DescribeTable("AllMembersUpdated",
	func(change func(*conditions.Input), expected string) {
		Expect(statusAndReason(conditions.AllMembersUpdated(healthy(change)))).To(Equal(expected))
	},
	Entry("every pod has the newest revision", func(*conditions.Input) {}, "True AllMembersUpdated"),
	Entry("one pod has another", func(in *conditions.Input) { in.Observation.Pods[1].RevisionHash = "b" }, "False NotAllMembersUpdated"),
	Entry("a pod is missing", func(in *conditions.Input) { in.Observation.Pods = in.Observation.Pods[:2] }, "False NotAllMembersUpdated"),
	Entry("the StatefulSet controller did not observe the latest spec", func(in *conditions.Input) { in.Observation.StatefulSet.Generation = 2 }, "False NotAllMembersUpdated"),
	Entry("there is no StatefulSet", func(in *conditions.Input) { in.Observation.StatefulSet.Exists = false }, "Unknown StatefulSetNotFound"),
	Entry("the StatefulSet cannot be read", failing(etcdcluster.SectionStatefulSet), "Unknown UnableToFetchStatefulSet"),
	Entry("the cluster hibernates", func(in *conditions.Input) { in.Etcd.Spec.Replicas = 0 }, "--"),
)

var _ = DescribeTable("DataVolumesReady",
	func(change func(*conditions.Input), expected string) {
		Expect(statusAndReason(conditions.DataVolumesReady(healthy(change)))).To(Equal(expected))
	},
	Entry("no claim has warnings", func(*conditions.Input) {}, "True NoWarningsFoundForDataVolumes"),
	Entry("a claim has warnings", func(in *conditions.Input) { in.Observation.Claims[1].Warnings = []string{"no such class"} }, "False FoundWarningsForDataVolumes"),
	Entry("there is no StatefulSet", func(in *conditions.Input) { in.Observation.StatefulSet.Exists = false }, "Unknown StatefulSetNotFound"),
	Entry("the StatefulSet cannot be read", failing(etcdcluster.SectionStatefulSet), "Unknown UnableToFetchStatefulSet"),
	Entry("claims cannot be read", failing(etcdcluster.SectionClaims), "Unknown UnableToFetchWarningEventsForDataVolumes"),
	Entry("events cannot be read", failing(etcdcluster.SectionClaimEvents), "Unknown UnableToFetchWarningEventsForDataVolumes"),
)

var _ = DescribeTable("ClusterIDMismatch",
	func(change func(*conditions.Input), expected string) {
		Expect(statusAndReason(conditions.ClusterIDMismatch(healthy(change)))).To(Equal(expected))
	},
	Entry("all members have the same cluster ID", func(*conditions.Input) {}, "False NoClusterIDMismatchDetected"),
	Entry("one member responds with another cluster ID", func(in *conditions.Input) { in.Observation.Etcd.Members[2].ClusterID = 8 }, "True MultipleClusterIDsDetected"),
	Entry("one Lease has another cluster ID", lease(2, "main-2", "3:8:Leader", 5*time.Second), "True MultipleClusterIDsDetected"),
	Entry("one Lease had another cluster ID before it expired", lease(2, "main-2", "3:8:Leader", 2*time.Minute), "False NoClusterIDMismatchDetected"),
	Entry("one Lease has the format without a cluster ID", lease(2, "main-2", "3:Member", 0), "False NoClusterIDMismatchDetected"),
	Entry("one member never renewed its Lease", lease(2, "main-2", "", 0), "False NoClusterIDMismatchDetected"),
	Entry("one Lease cannot be parsed", lease(2, "main-2", "what?", 0), "Unknown UnableToParseLeaseHolderIdentity"),
	Entry("no member has a known cluster ID", withoutResponses, "Unknown NoClusterIDDetected"),
	Entry("Leases cannot be read and no member responds", all(withoutResponses, failing(etcdcluster.SectionLeases)), "Unknown UnableToFetchLease"),
	Entry("Leases cannot be read but all members respond", failing(etcdcluster.SectionLeases), "False NoClusterIDMismatchDetected"),
)

var _ = DescribeTable("RevisionConfirmed",
	func(change func(*conditions.Input), expected string) {
		computed := conditions.RevisionConfirmed(healthy(change))
		if expected == "" {
			Expect(computed).To(BeNil())

			return
		}
		Expect(statusAndReason(computed)).To(Equal(expected))
	},
	Entry("no revision is recorded", func(*conditions.Input) {}, ""),
	Entry("a quorum confirmed a revision", func(in *conditions.Input) { in.Observation.State.Evidence = &state.Evidence{HighestRevision: 42} }, "True RevisionConfirmed"),
	Entry("a quorum returned a lower revision", rolledBack, "False RevisionRolledBack"),
	Entry("a user accepts another revision", all(rolledBack, accepting("40")), "False RevisionRolledBack"),
	Entry("a user accepts the revision", all(rolledBack, accepting("41")), "True RevisionConfirmed"),
)

func rolledBack(in *conditions.Input) {
	in.Observation.State.Evidence = &state.Evidence{HighestRevision: 42, At: noon.Add(-time.Minute), RolledBack: &state.RolledBack{Revision: 41, At: noon}}
}

func accepting(revision string) func(*conditions.Input) {
	return func(in *conditions.Input) {
		in.Etcd.Annotations = map[string]string{"druid.gardener.cloud/accept-revision": revision}
	}
}

var _ = It("names both revisions, what is lost and the remedies of a rollback", func() {
	Expect(conditions.RevisionConfirmed(healthy(rolledBack)).Message).To(Equal("A quorum returned revision 41 at 2026-01-01T12:00:00Z, and had returned revision 42 at 2026-01-01T11:59:00Z: " +
		"all writes after revision 41 that etcd acknowledged before 2026-01-01T12:00:00Z are lost, these are at least 1 revisions. " +
		"Follow the runbook of alert EtcdRevisionRolledBack, or set the annotation druid.gardener.cloud/accept-revision=41 to continue with this data. Until then no full snapshot counts as the final one, and snapshots are not compacted"))
})

var _ = It("names both clusters if another cluster responds", func() {
	Expect(conditions.RevisionConfirmed(healthy(func(in *conditions.Input) {
		in.Observation.State.Evidence = &state.Evidence{HighestRevision: 42, ClusterID: "7", At: noon.Add(-time.Minute), RolledBack: &state.RolledBack{Revision: 50, ClusterID: "8", At: noon}}
	})).Message).To(HavePrefix("Cluster 8 returned revision 50 at 2026-01-01T12:00:00Z, and not cluster 7, which had returned revision 42 at 2026-01-01T11:59:00Z: the data is of another cluster. "))
})

var _ = It("reports a rollback also while the cluster hibernates, until a user accepts it", func() {
	in := healthy(rolledBack)
	conditions.ForCare(in, &in.Etcd.Status)
	in.Etcd.Spec.Replicas = 0
	conditions.ForCare(in, &in.Etcd.Status)
	Expect(conditions.Find(in.Etcd.Status.Conditions, "RevisionConfirmed")).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring("revision 41"))))
	in.Observation.State.Evidence = &state.Evidence{HighestRevision: 41, AcceptedRevision: 41}
	conditions.ForCare(in, &in.Etcd.Status)
	Expect(conditions.Find(in.Etcd.Status.Conditions, "RevisionConfirmed")).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Message", "No quorum has returned a lower revision since revision 41 was accepted")))
})

var _ = DescribeTable("BootstrappedWithExistingCluster",
	func(change func(*conditions.Input), expected string) {
		Expect(statusAndReason(conditions.BootstrappedWithExistingCluster(healthy(change)))).To(Equal(expected))
	},
	Entry("is absent when no cluster is named", func(*conditions.Input) {}, "--"),
	Entry("is True when all have joined", joining, "True BootstrapSucceeded"),
	Entry("is False while one is missing", all(joining, lease(2, "main-2", "", 0)), "False BootstrapInProgress"),
	Entry("stays True once it was recorded", all(lease(2, "main-2", "", 0), func(in *conditions.Input) {
		in.Etcd.Status.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingClusterStatus{}
	}), "True BootstrapSucceeded"),
)

func joining(in *conditions.Input) {
	in.Etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
		Members: []druidv1alpha1.BootstrapExistingMember{{Name: "source-0", PeerURLs: []string{"http://source-0:2380"}}},
	}
}

var _ = DescribeTable("SecretsValid",
	func(change func(*conditions.Input), expected, message string) {
		condition := conditions.SecretsValid(healthy(change))
		Expect(statusAndReason(condition)).To(Equal(expected))
		Expect(condition.Message).To(Equal(message))
	},
	Entry("reports plaintext client traffic", func(*conditions.Input) {}, "True SecretsValid",
		"Every Secret that pods need exists; clients are served plaintext, since no certificates are named or issued: set spec.etcd.enableTLS to true to have them issued"),
	Entry("reports plaintext client traffic that the spec requests", func(in *conditions.Input) { in.Etcd.Spec.Etcd.EnableTLS = new(false) }, "True SecretsValid",
		"Every Secret that pods need exists; clients are served plaintext, since spec.etcd.enableTLS is false"),
	Entry("does not mention plaintext with TLS", all(encrypted(-day, 365*day), func(in *conditions.Input) { in.Observation.Secrets = in.Observation.Secrets[:2] }), "True SecretsValid",
		"Every Secret that pods need exists. The first to expire is tls.crt of Secret server, at 2027-01-01T12:00:00Z"),
	Entry("names what is missing", func(in *conditions.Input) {
		in.Observation.Secrets = []etcdcluster.Secret{{Name: "etcd-backup", Uses: []helper.SecretUse{{Field: "spec.backup.store.secretRef"}}}}
	}, "False SecretsMissing", "Secret etcd-backup, named by spec.backup.store.secretRef, does not exist"),
	Entry("is false if a Secret in use is being deleted", func(in *conditions.Input) {
		in.Observation.Secrets = []etcdcluster.Secret{{Name: "etcd-backup", Exists: true, Deleting: true, Uses: []helper.SecretUse{{Field: "spec.backup.store.secretRef"}}}}
	}, "False SecretsTerminating", "Secret etcd-backup, named by spec.backup.store.secretRef, is being deleted and exists until nothing uses it: create a Secret with the same content and another name, and name it there"),
	Entry("ignores a Secret that is being deleted and that only old pods mount", func(in *conditions.Input) {
		in.Observation.Secrets = []etcdcluster.Secret{{Name: "former", Exists: true, Deleting: true}}
	}, "True SecretsValid", "Every Secret that pods need exists; clients are served plaintext, since no certificates are named or issued: set spec.etcd.enableTLS to true to have them issued"),
	Entry("is unknown if a Secret cannot be read", failing(etcdcluster.SectionSecrets), "Unknown UnableToFetchSecrets", "timeout"),
)

var _ = Describe("StoreResolved", func() {
	It("is absent without a store", func() {
		Expect(conditions.StoreResolved(&druidv1alpha1.Etcd{}, conditions.StoreResolution{Reason: "StoreResolved"})).To(BeNil())
	})

	It("is False with the reason of the search", func() {
		etcd := healthy(func(*conditions.Input) {}).Etcd
		Expect(statusAndReason(conditions.StoreResolved(etcd, conditions.StoreResolution{Reason: "BackupEntryNotFound"}))).To(Equal("False BackupEntryNotFound"))
		Expect(statusAndReason(conditions.StoreResolved(etcd, conditions.StoreResolution{Reason: "StoreResolved"}))).To(Equal("True StoreResolved"))
	})
})

var _ = Describe("Members", func() {
	It("reports the ID, role and state, and keeps the time of the last transition", func() {
		before := metav1.NewTime(noon.Add(-time.Hour))
		in := healthy(all(lease(2, "main-2", "3:7:Member", 2*time.Minute), func(in *conditions.Input) {
			in.Etcd.Status.Members = []druidv1alpha1.EtcdMemberStatus{
				{Name: "main-0", Status: "Ready", LastTransitionTime: before},
				{Name: "main-2", Status: "Ready", LastTransitionTime: before},
				{Name: "main-9", Status: "Ready", LastTransitionTime: before},
			}
		}))
		Expect(conditions.Members(in)).To(Equal([]druidv1alpha1.EtcdMemberStatus{
			{Name: "main-0", ID: new("1"), Role: new(druidv1alpha1.EtcdRole("Leader")), Status: "Ready", Reason: "Healthy", LastTransitionTime: before},
			{Name: "main-1", ID: new("2"), Role: new(druidv1alpha1.EtcdRole("Member")), Status: "Ready", Reason: "Healthy", LastTransitionTime: metav1.NewTime(noon)},
			{Name: "main-2", ID: new("3"), Role: new(druidv1alpha1.EtcdRole("Member")), Status: "Unknown", Reason: "LeaseExpired", LastTransitionTime: metav1.NewTime(noon)},
		}))
	})
})
