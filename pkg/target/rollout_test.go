// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("New defaults of the operator", func() {
	sets := func(tag string) map[string]state.Images {
		return map[string]state.Images{"3.4": {EtcdWrapper: "w4:" + tag, BackupRestore: "b4:" + tag}, "3.5": {EtcdWrapper: "w5:" + tag, BackupRestore: "b5:" + tag}}
	}
	limited := func(tag string) target.Config {
		c := config
		c.Rollout = &rollout.Limits{Canaries: 1}
		c.Defaults = state.Defaults{ImageSets: sets(tag)}

		return c
	}
	// ran is the observation of a ready member with the images v1.
	ran := func(changes ...func(*etcdcluster.Observation)) etcdcluster.Observation {
		o := running()
		o.State.Size, o.State.EtcdVersion = 1, "3.4"
		o.State.Accepted = &state.Accepted{Generation: 1, EtcdVersion: "3.4", Defaults: state.Defaults{ImageSets: sets("v1")}, Spec: &fixture.Etcd().Spec}
		o.StatefulSet.SpecReplicas, o.Pods = 1, []etcdcluster.Pod{{Ready: true}}
		for _, change := range changes {
			change(&o)
		}

		return o
	}
	request := func(etcd *druidv1alpha1.Etcd) {
		generation(2)(etcd)
		fixture.WithAnnotation(operation, "reconcile")(etcd)
	}
	delayed := func(o *etcdcluster.Observation) { o.State.Accepted.Delayed = true }
	images := func(t *target.Target) string {
		return t.Accepted.Defaults.ImagesOf(t.Accepted.EtcdVersion).EtcdWrapper
	}
	// change is the change from v1 to v2 for which an Etcd waits.
	change := func() state.Change {
		t := target.ForNewest(fixture.Etcd(request))
		Expect(t.Admit(ran(), limited("v2"))).To(Succeed())
		Expect(t.Waits).NotTo(BeNil())

		return *t.Waits
	}
	// updatingTo records an update to the defaults of a tag that began, with a version of etcd.
	updatingTo := func(tag, version string) func(*etcdcluster.Observation) {
		return func(o *etcdcluster.Observation) {
			accepted := state.Accepted{Defaults: limited(tag).Defaults, EtcdVersion: version}
			o.State.Rollout = &state.Rollout{Change: state.Change{From: "w4:v0,b4:v0@0", To: rollout.Fingerprint(fixture.Etcd().Spec, accepted)}}
		}
	}
	granted := func(isCanary bool) func(*etcdcluster.Observation) {
		return func(o *etcdcluster.Observation) {
			o.RolloutGrant = &state.Rollout{Change: change(), Canary: isCanary}
		}
	}
	notReady := func(o *etcdcluster.Observation) { o.Pods[0].Ready = false }
	own := func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Etcd.Image, etcd.Spec.Backup.Image = new("own:v1"), new("own:v1")
	}

	DescribeTable("wait for a grant", func(o etcdcluster.Observation, expectedImage string, waits, begins bool, options ...func(*druidv1alpha1.Etcd)) {
		t := target.ForNewest(fixture.Etcd(options...))
		Expect(t.Admit(o, limited("v2"))).To(Succeed())
		Expect(images(t)).To(Equal(expectedImage))
		Expect(t.Waits != nil).To(Equal(waits))
		Expect(t.Accepted.Delayed).To(Equal(waits))
		Expect(t.Begins != nil).To(Equal(begins))
		Expect(t.Accepted.Generation).To(Equal(t.Stored.Generation), "the spec does not wait")
	},
		Entry("when a generation is accepted", ran(), "w4:v1", true, false, request),
		Entry("while nothing is requested, the recorded ones stay", ran(), "w4:v1", false, false, generation(1)),
		Entry("after the generation was accepted", ran(delayed), "w4:v1", true, false, generation(1)),
		Entry("with a grant", ran(delayed, granted(false)), "w4:v2", false, true, generation(1)),
		Entry("with a grant, while the generation is accepted", ran(granted(true)), "w4:v2", false, true, request),
		Entry("with a grant for an unhealthy Etcd", ran(delayed, granted(false), notReady), "w4:v2", false, true, generation(1)),
		Entry("not as a canary that is not ready", ran(delayed, granted(true), notReady), "w4:v1", true, false, generation(1)),
		Entry("with a grant of another change", ran(delayed, func(o *etcdcluster.Observation) {
			o.RolloutGrant = &state.Rollout{Change: state.Change{From: "a", To: "b"}}
		}), "w4:v1", true, false, generation(1)),
		Entry("not of a new Etcd", etcdcluster.Observation{}, "w4:v2", false, false, generation(1)),
		Entry("not of a cluster that never ran", ran(func(o *etcdcluster.Observation) { o.State.Size = 0 }), "w4:v2", false, false, request),
		Entry("not if the spec names all images", ran(), "w4:v2", false, false, request, own),
		Entry("not if the spec requests another version of etcd", ran(), "w5:v2", false, false, request, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Version = new("3.5") }),
		Entry("not with externally managed members", ran(), "w4:v2", false, false, request, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.ExternallyManagedMemberAddresses = []string{"192.0.2.1"}
		}),
		Entry("although an earlier update has not passed, which follows the newest defaults", ran(updatingTo("v1", "3.4")), "w4:v1", true, false, generation(1)),
		Entry("not if the update was one to other defaults", ran(updatingTo("v2", "3.4")), "w4:v1", false, false, generation(1)),
		Entry("not after an update has passed", ran(updatingTo("v1", "3.4"), func(o *etcdcluster.Observation) { o.State.Rollout.PassedAt = now }), "w4:v1", false, false, generation(1)),
	)

	It("wait together with a newer version of etcd", func() {
		c := limited("v1")
		c.EtcdVersion = "3.5"
		t := target.ForNewest(fixture.Etcd(request))
		Expect(t.Admit(ran(), c)).To(Succeed())
		Expect(t.Accepted.EtcdVersion).To(Equal("3.4"))
		Expect(t.Waits).NotTo(BeNil())
		o := ran()
		o.RolloutGrant = &state.Rollout{Change: *t.Waits}
		Expect(t.Admit(o, c)).To(Succeed())
		Expect(t.Accepted.EtcdVersion).To(Equal("3.5"))
	})

	It("keep a newer version of etcd that was granted until the members can change to it", func() {
		c := limited("v1")
		c.EtcdVersion = "3.5"
		o := ran(func(o *etcdcluster.Observation) {
			o.State.Accepted.EtcdVersion = "3.5"
			updatingTo("v1", "3.5")(o)
			Expect(o.State.EtcdVersion).To(Equal("3.4"), "a full snapshot or a member is awaited")
		})
		for _, etcd := range []*druidv1alpha1.Etcd{fixture.Etcd(generation(1)), fixture.Etcd(request)} {
			t := target.ForNewest(etcd)
			Expect(t.Admit(o, c)).To(Succeed())
			Expect(t.Accepted.EtcdVersion).To(Equal("3.5"))
			Expect(t.Waits).To(BeNil())
		}

		By("waiting with the images of that version for newer images")
		c = limited("v2")
		c.EtcdVersion = "3.5"
		t := target.ForNewest(fixture.Etcd(generation(1)))
		Expect(t.Admit(o, c)).To(Succeed())
		Expect(images(t)).To(Equal("w5:v1"))
		Expect(t.Waits).NotTo(BeNil())
	})

	It("delay only what changes pods", func() {
		c := limited("v2")
		c.Defaults.NamespaceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"new": "true"}}}
		c.Defaults.NetworkPolicies = &state.NetworkPolicies{}
		t := target.ForNewest(fixture.Etcd(request))
		Expect(t.Admit(ran(), c)).To(Succeed())
		Expect(t.Waits).NotTo(BeNil())
		Expect(images(t)).To(Equal("w4:v1"))
		Expect(t.Accepted.Defaults.NamespaceSelectors).To(Equal(c.Defaults.NamespaceSelectors))
		Expect(t.Accepted.Defaults.NetworkPolicies).To(Equal(c.Defaults.NetworkPolicies))
	})

	It("do not wait any more after the earlier operator returned", func() {
		t := target.ForNewest(fixture.Etcd(generation(1)))
		Expect(t.Admit(ran(delayed), limited("v1"))).To(Succeed())
		Expect(t.Waits).To(BeNil())
		Expect(t.Accepted.Delayed).To(BeFalse())
	})

	It("do not wait without limits", func() {
		c := limited("v2")
		c.Rollout = nil
		for _, o := range []etcdcluster.Observation{ran(), ran(delayed)} {
			t := target.ForNewest(fixture.Etcd(request))
			Expect(t.Admit(o, c)).To(Succeed())
			Expect(images(t)).To(Equal("w4:v2"))
		}
	})

	It("reach the last accepted generation while the newest one is blocked", func() {
		for granted, expected := range map[bool]string{false: "w4:v1", true: "w4:v2"} {
			o := ran(delayed)
			if granted {
				o.RolloutGrant = &state.Rollout{Change: change()}
			}
			t := target.ForLastAccepted(target.ForNewest(fixture.Etcd(generation(2))), o, true)
			t.ContinueRollout(o, limited("v2"))
			Expect(images(t)).To(Equal(expected))
			Expect(t.Accepted.Generation).To(BeEquivalentTo(1))
			Expect(t.Accepted.Spec).To(Equal(o.State.Accepted.Spec))
		}
	})

	It("have the same change with another version of the operator", func() {
		first := change()
		Expect(change()).To(Equal(first))
		Expect(first.From).To(HavePrefix("w4:v1,b4:v1@"))
		Expect(first.To).To(HavePrefix("w4:v2,b4:v2@"))
	})
})
