// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = DescribeTable("Quorum",
	func(size, quorum int) {
		Expect(etcdcluster.QuorumOf(size)).To(Equal(quorum))
		Expect(etcdcluster.IsQuorate(quorum, size)).To(Equal(size > 0))
		Expect(etcdcluster.IsQuorate(quorum-1, size)).To(BeFalse())
		Expect(etcdcluster.ToleranceOf(size, size)).To(Equal(size - quorum))
	},
	Entry("of no member", 0, 0),
	Entry("of one", 1, 1),
	Entry("of two", 2, 2),
	Entry("of three", 3, 2),
	Entry("of four", 4, 3),
	Entry("of five", 5, 3),
	Entry("of seven", 7, 4),
)

var _ = Describe("ParseHeartbeat", func() {
	It("reads the form without a cluster id", func() {
		Expect(etcdcluster.ParseHeartbeat("8e9e05c52164694d:Leader")).To(Equal(etcdcluster.Heartbeat{MemberID: 0x8e9e05c52164694d, Role: "Leader"}))
	})

	It("reads the form with a cluster id", func() {
		Expect(etcdcluster.ParseHeartbeat("1a:cdf818194e3a8c32:Member")).To(Equal(etcdcluster.Heartbeat{MemberID: 0x1a, ClusterID: 0xcdf818194e3a8c32, Role: "Member"}))
	})

	DescribeTable("reads what a heartbeat is written as",
		func(identity string) {
			heartbeat, err := etcdcluster.ParseHeartbeat(identity)
			Expect(err).NotTo(HaveOccurred())
			Expect(heartbeat.String()).To(Equal(identity))
		},
		Entry("without a cluster id", "8e9e05c52164694d:Leader"),
		Entry("with one", "1a:cdf818194e3a8c32:Member"),
	)

	DescribeTable("refuses",
		func(identity, message string) {
			_, err := etcdcluster.ParseHeartbeat(identity)
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
		Entry("an empty identity", "", "neither the form"),
		Entry("too many parts", "1:2:3:Leader", "neither the form"),
		Entry("a member id that is not hexadecimal", "xyz:Leader", `member id in holder identity "xyz:Leader"`),
		Entry("a cluster id that is not hexadecimal", "1:0x2:Leader", `cluster id in holder identity`),
		Entry("an unknown role", "1:Learner", `role "Learner"`),
	)
})

var _ = Describe("MembersFor", func() {
	It("composes pods, leases, answers and list entries of the desired members", func() {
		etcd := &druidv1alpha1.Etcd{}
		etcd.Name = "main"
		etcd.Spec.Replicas = 2
		etcd.Spec.MemberNamePrefix = new("seed")
		members := etcdcluster.MembersFor(etcd, etcdcluster.Observation{
			Pods:         []etcdcluster.Pod{{Name: "main-1", Ordinal: 1}},
			MemberLeases: []etcdcluster.Lease{{Name: "main-0", Holder: "ff:Leader"}, {Name: "seed-main-0", Holder: "a:b:Leader"}, {Name: "seed-main-1", Holder: "?"}},
			Etcd: etcdcluster.EtcdResponses{
				Members:    []etcdcluster.EndpointStatus{{Ordinal: 1, Reachable: true, MemberID: 11, LeaderID: 10}},
				MemberList: []etcdcluster.ListedMember{{ID: 10, Name: "seed-main-0"}, {ID: 11, Learner: true}},
			},
		})
		Expect(members).To(HaveLen(2))
		Expect(members[0].Heartbeat).To(Equal(&etcdcluster.Heartbeat{MemberID: 10, ClusterID: 11, Role: "Leader"}))
		Expect(members[0].Role()).To(BeEquivalentTo("Leader"))
		Expect(members[0].Pod).To(BeNil())
		Expect(members[1].Pod.Name).To(Equal("main-1"))
		Expect(members[1].HeartbeatError).NotTo(BeEmpty())
		Expect(members[1].Role()).To(BeEquivalentTo("Member"))
		Expect(members[1].Listed.Learner).To(BeTrue())
	})
})

var _ = DescribeTable("VotingMembers",
	func(replicas int32, o etcdcluster.Observation, count int) {
		etcd := &druidv1alpha1.Etcd{}
		etcd.Spec.Replicas = replicas
		Expect(etcdcluster.VotingMembers(etcd, o)).To(HaveLen(count))
	},
	Entry("returns the members of the spec", int32(3), etcdcluster.Observation{State: state.State{Size: 1}}, 3),
	Entry("includes members that leave", int32(1), etcdcluster.Observation{State: state.State{Size: 3}}, 3),
	Entry("includes the extra member of a volume migration", int32(3), etcdcluster.Observation{State: state.State{Replicas: new(int32(4)), Size: 3}}, 4),
	Entry("returns the members that run, if nothing is recorded", int32(1), etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{Exists: true, SpecReplicas: 3}}, 3),
	Entry("returns both members of a surge", int32(3), etcdcluster.Observation{State: state.State{Size: 3, Surge: &state.Surge{Phase: state.SurgeJoin}}}, 2),
)

var _ = DescribeTable("Serves",
	func(member etcdcluster.Member, healthy bool) {
		Expect(member.IsHealthy()).To(Equal(healthy))
		Expect(etcdcluster.HealthyVoters([]etcdcluster.Member{member, {}})).To(Equal(map[bool]int{true: 1}[healthy]))
	},
	Entry("a voter that answers reads", etcdcluster.Member{ClusterReachable: true, Endpoint: &etcdcluster.EndpointStatus{Reachable: true, Healthy: true}}, true),
	Entry("a voter that answers no reads, though its pod is ready",
		etcdcluster.Member{ClusterReachable: true, Endpoint: &etcdcluster.EndpointStatus{Reachable: true}, Pod: &etcdcluster.Pod{Ready: true}}, false),
	Entry("a learner", etcdcluster.Member{ClusterReachable: true, Endpoint: &etcdcluster.EndpointStatus{Reachable: true, Healthy: true, Learner: true}}, false),
	Entry("a ready pod, if no member can be queried", etcdcluster.Member{Endpoint: &etcdcluster.EndpointStatus{}, Pod: &etcdcluster.Pod{Ready: true}}, true),
	Entry("a pod that is not ready, if no member can be queried", etcdcluster.Member{Pod: &etcdcluster.Pod{}}, false),
	Entry("a pod that is being deleted", etcdcluster.Member{Pod: &etcdcluster.Pod{Ready: true, Deleting: true}}, false),
	Entry("nothing", etcdcluster.Member{}, false),
)

var _ = DescribeTable("MissingSecrets",
	func(secret etcdcluster.Secret, missing ...string) {
		secret.Name = "ca"
		Expect(etcdcluster.MissingSecrets(etcdcluster.Observation{Secrets: []etcdcluster.Secret{secret}})).To(ConsistOf(missing))
	},
	Entry("nothing of a Secret that needs only to exist", etcdcluster.Secret{Exists: true, Uses: []helper.SecretUse{{Field: "f"}}}),
	Entry("the Secret itself", etcdcluster.Secret{Uses: []helper.SecretUse{{Field: "f"}}}, "Secret ca, named by f, does not exist"),
	Entry("a key", etcdcluster.Secret{Exists: true, Keys: []string{"tls.crt"}, Uses: []helper.SecretUse{{Field: "f", Keys: []string{"tls.crt", "tls.key"}}}},
		"Secret ca, named by f, has no key tls.key"),
	Entry("all keys of which one would do", etcdcluster.Secret{Exists: true, Uses: []helper.SecretUse{{Field: "f", AnyOf: []string{"bundle.crt", "ca.crt"}}}},
		"Secret ca, named by f, has none of the keys bundle.crt, ca.crt"),
	Entry("nothing when one of them is there",
		etcdcluster.Secret{Exists: true, Keys: []string{"ca.crt"}, Uses: []helper.SecretUse{{Field: "f", AnyOf: []string{"bundle.crt", "ca.crt"}}}}),
	Entry("what one of multiple uses needs", etcdcluster.Secret{Exists: true, Keys: []string{"ca.crt"}, Uses: []helper.SecretUse{{Field: "f"}, {Field: "g", Keys: []string{"x"}}}},
		"Secret ca, named by g, has no key x"),
)

var _ = DescribeTable("CAKey",
	func(dataKey *string, keys []string, expected string) {
		ref := druidv1alpha1.SecretReference{DataKey: dataKey}
		ref.Name = "ca"
		Expect(etcdcluster.CAKey(ref, etcdcluster.Observation{Secrets: []etcdcluster.Secret{{Name: "ca", Exists: true, Keys: keys}}})).To(Equal(expected))
	},
	Entry("is the one that is named", new("x.crt"), []string{"bundle.crt", "ca.crt"}, "x.crt"),
	Entry("is bundle.crt where it exists", nil, []string{"bundle.crt", "ca.crt"}, "bundle.crt"),
	Entry("is else ca.crt", nil, []string{"ca.crt"}, "ca.crt"),
	Entry("is ca.crt also where nothing exists", nil, nil, "ca.crt"),
)

var _ = Describe("StoreFingerprint", func() {
	specOf := func(change func(*corev1.PodSpec)) corev1.PodSpec {
		spec := corev1.PodSpec{
			Containers: []corev1.Container{{Name: "etcd"}, {
				Name: "backup-restore", Args: []string{"server", "--storage-provider=S3", "--store-prefix=a", "--schedule=x"},
				Env: []corev1.EnvVar{{Name: "STORAGE_CONTAINER", Value: "bucket"}, {Name: "ECS_ENDPOINT", ValueFrom: &corev1.EnvVarSource{
					SecretKeyRef: &corev1.SecretKeySelector{Key: "endpoint", LocalObjectReference: corev1.LocalObjectReference{Name: "s"}},
				}}},
			}},
			Volumes: []corev1.Volume{{Name: "etcd-backup-secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}},
		}
		change(&spec)

		return spec
	}
	pod := func(change func(*corev1.PodSpec)) string { return etcdcluster.StoreFingerprint(specOf(change)) }

	DescribeTable("changes with",
		func(change func(*corev1.PodSpec), changes bool) {
			same := Equal(pod(func(*corev1.PodSpec) {}))
			if changes {
				same = Not(same)
			}
			Expect(pod(change)).To(same)
		},
		Entry("nothing", func(*corev1.PodSpec) {}, false),
		Entry("the provider", func(s *corev1.PodSpec) { s.Containers[1].Args[1] = "--storage-provider=GCS" }, true),
		Entry("the container", func(s *corev1.PodSpec) { s.Containers[1].Env[0].Value = "other" }, true),
		Entry("the Secret of the environment", func(s *corev1.PodSpec) { s.Containers[1].Env[1].ValueFrom.SecretKeyRef.Name = "other" }, true),
		Entry("the Secret", func(s *corev1.PodSpec) { s.Volumes[0].Secret.SecretName = "other" }, true),
		Entry("no other flag", func(s *corev1.PodSpec) { s.Containers[1].Args[3] = "--schedule=y" }, false),
		Entry("no image", func(s *corev1.PodSpec) { s.Containers[1].Image = "v2" }, false),
	)

	DescribeTable("has the location", func(expected string, change func(*corev1.PodSpec)) {
		spec := specOf(change)
		Expect(etcdcluster.StoreLocationOf(spec)).To(Equal(expected))
	},
		Entry("of provider, container and prefix", `S3 container "bucket" prefix "a"`, func(*corev1.PodSpec) {}),
		Entry("not of another container of the pod", "", func(s *corev1.PodSpec) { s.Containers[1].Name = "other" }),
		Entry("not without a provider", "", func(s *corev1.PodSpec) { s.Containers[1].Args = s.Containers[1].Args[2:] }),
		Entry("not without a value of the container", "", func(s *corev1.PodSpec) { s.Containers[1].Env[0].Value = "" }),
	)

	It("knows the Secret with the credentials", func() {
		Expect(etcdcluster.StoreSecretName(corev1.PodSpec{})).To(BeEmpty())
		Expect(etcdcluster.StoreSecretName(corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data"}, {
			Name: "etcd-backup-secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
		}}})).To(Equal("s"))
	})

	DescribeTable("sees pods with another Secret", func(o etcdcluster.Observation, other bool) {
		Expect(o.MountsOtherStoreSecret()).To(Equal(other))
	},
		Entry("where one pod is older", etcdcluster.Observation{
			StatefulSet: etcdcluster.StatefulSet{Exists: true, StoreSecret: "b"}, Pods: []etcdcluster.Pod{{StoreSecret: "b"}, {StoreSecret: "a"}},
		}, true),
		Entry("not where all have it", etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{Exists: true, StoreSecret: "b"}, Pods: []etcdcluster.Pod{{StoreSecret: "b"}}}, false),
		Entry("not where there is no StatefulSet to compare with", etcdcluster.Observation{Pods: []etcdcluster.Pod{{StoreSecret: "b"}}}, false),
	)

	It("is empty without a sidecar", func() {
		Expect(pod(func(s *corev1.PodSpec) { s.Containers = s.Containers[:1] })).To(BeEmpty())
	})
})
