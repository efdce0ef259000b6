// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const (
	suspended = "druid.gardener.cloud/suspend-etcd-spec-reconcile"
	operation = "druid.gardener.cloud/operation"
)

var (
	now      = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	config   = target.Config{Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {EtcdWrapper: "new"}, "3.5": {EtcdWrapper: "new"}}}, LocalStoreRoots: backupstore.LocalRoots{"/var/buckets"}}
	accepted = func(generation int64) *state.Accepted {
		return &state.Accepted{Generation: generation, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {EtcdWrapper: "old"}}}, Spec: &fixture.Etcd(fixture.WithReplicas(3)).Spec}
	}
	// running is the observation of a cluster whose generation 1 was accepted.
	running = func() etcdcluster.Observation {
		return etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-test", AppliesStatefulSet: true},
			StatefulSet:     etcdcluster.StatefulSet{Exists: true, Name: "test"},
			State:           state.State{Accepted: accepted(1)},
		}
	}
	problemOf = func(err error) string {
		GinkgoHelper()
		if err == nil {
			return ""
		}
		problem := plan.AsProblem(err)
		if problem == nil {
			Fail("no problem: " + err.Error())
		}

		return string(problem.Kind) + " " + problem.Reason + string(problem.Code) + ": " + problem.Error()
	}
	generation = func(generation int64) func(*druidv1alpha1.Etcd) {
		return func(etcd *druidv1alpha1.Etcd) {
			etcd.Generation, etcd.Status.ObservedGeneration = generation, new(int64(1))
		}
	}
	invalid = func(etcd *druidv1alpha1.Etcd) {
		fixture.WithStore("S3")(etcd)
		etcd.Spec.Backup.Store.EndpointOverride = new("https://user:password@host")
	}
)

var _ = Describe("Admit", func() {
	DescribeTable("bounds what changes, and warns about what runs", func(o etcdcluster.Observation, problem string, warnings int) {
		t := target.ForNewest(fixture.Etcd(generation(2), fixture.WithAnnotation(operation, "reconcile"), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.Quota = new(resource.MustParse("512m"))
		}))
		Expect(problemOf(t.Admit(o, config))).To(HavePrefix(problem))
		Expect(t.Warnings).To(HaveLen(warnings))
	},
		Entry("a new Etcd", etcdcluster.Observation{}, "Refused ERR_INVALID_SPEC: spec.etcd.quota", 0),
		Entry("a change of a running Etcd", running(), "Refused ERR_INVALID_SPEC: spec.etcd.quota", 0),
		Entry("an Etcd that runs with it", func() etcdcluster.Observation {
			o := running()
			o.State.Accepted.Spec.Etcd.Quota = new(resource.MustParse("512m"))

			return o
		}(), "", 1),
		Entry("an adopted Etcd", etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{Exists: true}}, "", 1),
	)

	DescribeTable("refuses values that the configuration does not allow, also if the cluster runs with them", func(o etcdcluster.Observation) {
		etcd := fixture.Etcd(generation(1), fixture.WithAnnotation(operation, "reconcile"), fixture.WithReplicas(3), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.PriorityClassName = new("high") })
		if o.State.Accepted != nil {
			o.State.Accepted.Spec = &etcd.Spec
		}
		t, c := target.ForNewest(etcd), config
		Expect(t.Admit(o, c)).To(Succeed())
		c.Restrictions.AllowedPriorityClasses = []string{}
		Expect(problemOf(t.Admit(o, c))).To(HavePrefix("Refused ERR_INVALID_SPEC: spec.priorityClassName: Forbidden: restrictions.allowedPriorityClasses of the operator's configuration"))
		Expect(target.ForLastAccepted(t, o, true) != nil).To(Equal(o.State.Accepted != nil), "the last accepted generation stays")
	},
		Entry("a new Etcd", etcdcluster.Observation{}),
		Entry("an accepted generation", running()),
		Entry("an adopted Etcd", etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{Exists: true}}),
	)

	DescribeTable("decides whether the newest generation is rolled out, and with what",
		func(o etcdcluster.Observation, autoReconcile bool, problem, image string, options ...func(*druidv1alpha1.Etcd)) {
			c := config
			c.AutoReconcile = autoReconcile
			t := target.ForNewest(fixture.Etcd(options...))
			Expect(t.Problem()).NotTo(HaveOccurred())
			Expect(problemOf(t.Admit(o, c))).To(HavePrefix(problem))
			if image == "" {
				Expect(t.Accepted).To(BeNil())

				return
			}
			Expect(t.Accepted.Defaults.ImagesOf("").EtcdWrapper).To(Equal(image))
			Expect(t.Accepted.Generation).To(Equal(t.Stored.Generation))
			Expect(t.Accepted.Spec).To(HaveValue(Equal(t.Canonical.Spec)))
		},
		Entry("of a new Etcd", etcdcluster.Observation{}, false, "", "new"),
		Entry("of an accepted generation, with the defaults of then", running(), false, "", "old", generation(1)),
		Entry("of a later generation without a request", running(), false, "Skipped OperationAnnotationMissing", "", generation(2)),
		Entry("of a later generation with a request", running(), false, "", "new", generation(2), fixture.WithAnnotation(operation, "reconcile")),
		Entry("of a later generation with auto-reconcile", running(), true, "", "new", generation(2)),
		Entry("of an accepted generation with a request, with the defaults of now", running(), false, "", "new", generation(1), fixture.WithAnnotation(operation, "reconcile")),
		Entry("of a suspended Etcd, first of all", running(), false, "Skipped Suspended", "", generation(2), invalid, fixture.WithAnnotation(suspended, "")),
		Entry("of an invalid spec, only once it is requested", running(), false, "Skipped OperationAnnotationMissing", "", generation(2), invalid),
		Entry("of an invalid spec that is requested", running(), true, "Refused ERR_INVALID_SPEC: spec.backup.store.endpointOverride", "new", generation(2), invalid),
	)
})

var _ = Describe("The version of etcd of a generation", func() {
	const gate = "3.5"
	recorded := func(version string, reported ...string) etcdcluster.Observation {
		o := running()
		o.State.EtcdVersion = version
		for _, version := range reported {
			o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Reachable: version != "", Version: version})
		}

		return o
	}
	adopted := func(version string) etcdcluster.Observation {
		return etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{Exists: true, EtcdImage: "etcd-wrapper"}, State: state.State{EtcdVersion: version}}
	}
	version := func(version string) func(*druidv1alpha1.Etcd) {
		return func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Version = &version }
	}
	image := func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Image = new("example.com/etcd-wrapper") }
	hibernated := func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 }
	joins := func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{}
	}
	existing := etcdcluster.Observation{Etcd: etcdcluster.EtcdResponses{Existing: []etcdcluster.EndpointStatus{{Version: "3.5.27"}, {}}}}

	DescribeTable("is the default of new Etcds only for these",
		func(o etcdcluster.Observation, gate, expected string, options ...func(*druidv1alpha1.Etcd)) {
			c := config
			c.EtcdVersion, c.NewEtcdVersion = gate, "3.5"
			t := target.ForNewest(fixture.Etcd(append(options, generation(2), fixture.WithAnnotation(operation, "reconcile"))...))
			Expect(t.Admit(o, c)).To(Succeed())
			Expect(t.Accepted.EtcdVersion).To(Equal(expected))
		},
		Entry("new", etcdcluster.Observation{}, "", "3.5"),
		Entry("new, with an older default of all Etcds", etcdcluster.Observation{}, "3.4", "3.5"),
		Entry("new, and its spec has one", etcdcluster.Observation{}, "", "3.4", version("3.4")),
		Entry("new, and it joins a cluster", etcdcluster.Observation{}, "", "3.4", joins),
		Entry("running", recorded("3.4"), "", "3.4"),
		Entry("running, and its version is not known", recorded(""), "", "3.4"),
		Entry("adopted", adopted("3.4"), "", "3.4"),
	)

	DescribeTable("is resolved when the generation is accepted",
		func(o etcdcluster.Observation, defaultVersion, expected string, options ...func(*druidv1alpha1.Etcd)) {
			c := config
			c.EtcdVersion = defaultVersion
			options = append(options, generation(2), fixture.WithAnnotation(operation, "reconcile"))
			t := target.ForNewest(fixture.Etcd(options...))
			Expect(t.Admit(o, c)).To(Succeed())
			Expect(t.Accepted.EtcdVersion).To(Equal(expected))
			t.SetVersion()
			Expect(helper.EtcdVersion(t.Etcd)).To(Equal(expected))
			Expect(t.Accepted.Spec.Etcd.Version).To(Equal(t.Stored.Spec.Etcd.Version), "the record keeps what the user requests")
		},
		Entry("a new Etcd", etcdcluster.Observation{}, "", "3.4"),
		Entry("a new Etcd with the feature gate", etcdcluster.Observation{}, gate, "3.5"),
		Entry("a new Etcd whose spec has one, with the feature gate", etcdcluster.Observation{}, gate, "3.4", version("3.4")),
		Entry("a new Etcd that joins a cluster", existing, "", "3.5", joins),
		Entry("a new Etcd that joins a cluster of which no version is known, with the feature gate", etcdcluster.Observation{}, gate, "3.4", joins),
		Entry("not known", recorded(""), "", "3.4"),
		Entry("not known, with the feature gate", recorded(""), gate, "3.5"),
		Entry("the feature gate is disabled again", recorded("3.5"), "", "3.5"),
		Entry("the spec has none any more", recorded("3.5"), "3.4", "3.5"),
		Entry("the spec requests an older one", recorded("3.5"), gate, "3.4", version("3.4")),
		Entry("hibernated, with the feature gate", recorded("3.4"), gate, "3.4", hibernated),
		Entry("the image is that of the spec, with the feature gate", recorded("3.4"), gate, "3.4", image),
		Entry("of members that have joined a cluster, with the feature gate", recorded("3.4"), gate, "3.4", joins),
		Entry("all members that respond report a newer one than the record, whose image contains it", recorded("3.4", "3.5.27", "", "3.5.27"), "", "3.5"),
		Entry("all members report a newer one than the record, with an image of the spec", recorded("", "3.5.27"), "", "3.5", image),
		Entry("some members report a newer one than the record", recorded("3.4", "3.5.27", "3.4.34"), "", "3.4"),
		Entry("members report one that the operator does not know", recorded("3.4", "99.0.0"), "", "3.4"),
		Entry("members report an older one than the record", recorded("3.5", "3.4.34"), "", "3.5"),
		Entry("adopted", adopted("3.5"), "", "3.5"),
		Entry("adopted, with the feature gate", adopted("3.4"), gate, "3.5"),
	)

	It("stays as it is while the same generation is accepted", func() {
		c := config
		c.EtcdVersion = gate
		o := recorded("3.4")
		o.State.Accepted.EtcdVersion = "3.4"
		t := target.ForNewest(fixture.Etcd(generation(1)))
		Expect(t.Admit(o, c)).To(Succeed())
		Expect(t.Accepted.EtcdVersion).To(Equal("3.4"))
		Expect(t.NeedsMembers(o, c)).To(BeFalse())
	})

	DescribeTable("of a cluster to be adopted is awaited if it is not known",
		func(o etcdcluster.Observation, problem string, options ...func(*druidv1alpha1.Etcd)) {
			t := target.ForNewest(fixture.Etcd(options...))
			Expect(t.Admit(o, config)).To(Succeed())
			Expect(problemOf(t.AwaitVersion(o))).To(HavePrefix(problem))
		},
		Entry("unknown", adopted(""), `Waiting : Waiting for a member to report its version of etcd, or for spec.etcd.version: the version in image "etcd-wrapper" is not known`),
		Entry("reported", adopted("3.4"), ""),
		Entry("reported, and newer than the images of the operator, whatever the spec says", adopted("3.6"),
			"Waiting : Waiting for the members to run a version of etcd for which the operator has images, 3.4 or 3.5: a member reports 3.6", version("3.4")),
		Entry("reported, and older than the images of the operator, whatever the spec says", adopted("3.3"), "Waiting : Waiting for the members to run a version of etcd", version("3.4")),
		Entry("in the spec", adopted(""), "", version("3.5")),
		Entry("of a new cluster", etcdcluster.Observation{}, ""),
		Entry("not known, of a cluster that was adopted", recorded(""), ""),
	)

	withSets := func() target.Config {
		c := config
		c.Defaults.ImageSets = map[string]state.Images{"3.4": {EtcdWrapper: "w4"}, "3.5": {EtcdWrapper: "w5"}}

		return c
	}
	request := func(etcd *druidv1alpha1.Etcd) {
		generation(2)(etcd)
		fixture.WithAnnotation(operation, "reconcile")(etcd)
	}

	DescribeTable("determines whether names of members may have a prefix",
		func(o etcdcluster.Observation, problem string, options ...func(*druidv1alpha1.Etcd)) {
			options = append(options, request, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.MemberNamePrefix = new("green") })
			Expect(problemOf(target.ForNewest(fixture.Etcd(options...)).Admit(o, withSets()))).To(HavePrefix(problem))
		},
		Entry("3.4", etcdcluster.Observation{}, `Refused ERR_INVALID_SPEC: spec.memberNamePrefix: Invalid value: "green": needs etcd-backup-restore v0.43.0 or newer`),
		Entry("3.4 of a cluster that runs, whose prefix cannot change", recorded("3.4"), ""),
		Entry("3.4, with an image of the spec", etcdcluster.Observation{}, "", func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Image = new("example.com/b") }),
		Entry("3.5", etcdcluster.Observation{}, "", version("3.5")),
	)

	DescribeTable("is refused if the operator has no images of the recorded one", func(problem string, options ...func(*druidv1alpha1.Etcd)) {
		Expect(problemOf(target.ForNewest(fixture.Etcd(append(options, request)...)).Admit(recorded("3.6"), withSets()))).To(HavePrefix(problem))
	},
		Entry("because a later operator has rendered it", `Refused ERR_INVALID_SPEC: spec.etcd.version: Unsupported value: "3.6": supported values: "3.4", "3.5"`),
		Entry("but not with images of the spec", "", image, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Image = new("example.com/b") }),
	)

	DescribeTable("needs what the members report, also of a single member",
		func(etcdImage, defaultVersion string, needs, change, downgrade bool, options ...func(*druidv1alpha1.Etcd)) {
			o, c := recorded("3.5"), withSets()
			c.EtcdVersion = defaultVersion
			o.StatefulSet.EtcdImage = etcdImage
			t := target.ForNewest(fixture.Etcd(append(options, request)...))
			Expect(t.NeedsMembers(o, c)).To(Equal(needs))
			Expect(t.RequestsDowngrade(o, c)).To(Equal(downgrade))
			Expect(t.RequestsVersionChange(o, c)).To(Equal(change))
		},
		Entry("nothing changes", "w5", "3.4", false, false, false),
		Entry("a downgrade", "w5", "3.4", true, true, true, version("3.4")),
		Entry("another image of etcd-wrapper is rendered", "other", "3.4", true, false, false),
	)

	It("of a cluster to be adopted is also known from the images of the operator", func() {
		o := adopted("")
		o.StatefulSet.EtcdImage = "w5"
		t := target.ForNewest(fixture.Etcd())
		Expect(t.Admit(o, withSets())).To(Succeed())
		Expect(t.Accepted.EtcdVersion).To(Equal("3.5"))
	})

	It("of a cluster to be adopted is the newest one whose image it has, always", func() {
		o, c := adopted(""), withSets()
		o.StatefulSet.EtcdImage = "w4"
		c.Defaults.ImageSets["3.5"] = c.Defaults.ImageSets["3.4"]
		for range 50 {
			t := target.ForNewest(fixture.Etcd())
			Expect(t.Admit(o, c)).To(Succeed())
			Expect(t.Accepted.EtcdVersion).To(Equal("3.5"))
		}
	})
})

var _ = Describe("ForLastAccepted", func() {
	newest := func() *target.Target {
		return target.ForNewest(fixture.Etcd(generation(2), fixture.WithAnnotation(operation, "reconcile"), fixture.WithAnnotation("druid.gardener.cloud/restore", "from-store"),
			fixture.WithAnnotation("druid.gardener.cloud/rotate-ca", "start"), fixture.WithAnnotation("resources.druid.gardener.cloud/allow-unhealthy-pod-eviction", "")))
	}

	It("returns the accepted spec, with the annotations that describe the Etcd", func() {
		t := target.ForLastAccepted(newest(), running(), true)
		Expect(t.Source).To(Equal(target.LastAccepted))
		Expect(t.Stored.Generation).To(BeEquivalentTo(1))
		Expect(t.Etcd.Spec.Replicas).To(BeEquivalentTo(3))
		Expect(t.Stored.Annotations).To(And(HaveLen(2), HaveKey("resources.druid.gardener.cloud/allow-unhealthy-pod-eviction"), HaveKey("druid.gardener.cloud/rotate-ca")))
	})

	It("has the recovery policy of the newest generation, which changes no pod", func() {
		etcd, o := newest(), running()
		etcd.Stored.Spec.RecoveryPolicy, o.State.Accepted.Spec.RecoveryPolicy = new(druidv1alpha1.RecoveryPolicyNever), new(druidv1alpha1.RecoveryPolicyAuto)
		Expect(target.ForLastAccepted(etcd, o, true).Etcd.Spec.RecoveryPolicy).To(HaveValue(BeEquivalentTo("Never")))
		etcd.Stored.Spec.RecoveryPolicy = nil
		Expect(target.ForLastAccepted(etcd, o, true).Etcd.Spec.RecoveryPolicy).To(BeNil())
	})

	DescribeTable("returns nothing", func(change func(*etcdcluster.Observation)) {
		o := running()
		change(&o)
		Expect(target.ForLastAccepted(newest(), o, true)).To(BeNil())
	},
		Entry("without a ManagedResource", func(o *etcdcluster.Observation) { o.ManagedResource.Exists = false }),
		Entry("while the ManagedResource is deleted", func(o *etcdcluster.Observation) { o.ManagedResource.Deleting = true }),
		Entry("while the Etcd is handed back", func(o *etcdcluster.Observation) { o.State.HandBack = 1 }),
		Entry("without a recorded spec", func(o *etcdcluster.Observation) { o.State.Accepted.Spec = nil }),
		Entry("when a user has removed the record of the store", func(o *etcdcluster.Observation) {
			o.State.Accepted.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "p"}
		}),
	)

	DescribeTable("knows whether the accepted generation was completed", func(recorded bool, lastOperation string, blocked, expected bool) {
		o, etcd := running(), newest()
		o.State.Accepted.Completed = recorded
		etcd.Stored.Status.LastOperation = &druidv1alpha1.LastOperation{State: druidv1alpha1.LastOperationState(lastOperation)}
		Expect(target.ForLastAccepted(etcd, o, blocked).IsCompleted()).To(Equal(expected))
	},
		Entry("from the record", true, "Error", true, true),
		Entry("from the last operation, before that reports the newest generation", false, "Succeeded", true, true),
		Entry("not from an operation that failed", false, "Error", true, false),
	)
})

var _ = Describe("CheckOwnership", func() {
	DescribeTable("refuses objects that do not belong to the Etcd", func(change func(*etcdcluster.Observation), expected string) {
		o := running()
		change(&o)
		err := target.ForNewest(fixture.Etcd()).CheckOwnership(o)
		if expected == "" {
			Expect(err).NotTo(HaveOccurred())

			return
		}
		Expect(err).To(MatchError(ContainSubstring(expected)))
		Expect(plan.AsProblem(err)).To(And(HaveField("Kind", plan.ProblemRefused), HaveField("Foreign", true)))
	},
		Entry("not its own StatefulSet", func(o *etcdcluster.Observation) { o.StatefulSet.OwnerUID = "uid" }, ""),
		Entry("not a StatefulSet that its ManagedResource applies", func(*etcdcluster.Observation) {}, ""),
		Entry("a StatefulSet without an owner", func(o *etcdcluster.Observation) { o.ManagedResource.AppliesStatefulSet = false }, "StatefulSet test in namespace test-ns"),
		Entry("a StatefulSet of another owner", func(o *etcdcluster.Observation) { o.StatefulSet.OwnerUID, o.StatefulSet.Foreign = "other", true }, "StatefulSet test"),
		Entry("a claim", func(o *etcdcluster.Observation) { o.ForeignClaims = []etcdcluster.Claim{{Name: "test-test-0"}} }, "PersistentVolumeClaim test-test-0"),
		Entry("a claim of the temporary member of a new Etcd", func(o *etcdcluster.Observation) {
			o.ForeignClaims = []etcdcluster.Claim{{Name: "test-test-1", Ordinal: 1}}
		}, "PersistentVolumeClaim test-test-1"),
		Entry("not a claim that only the temporary member of a surge would use", func(o *etcdcluster.Observation) {
			o.State.Size, o.ForeignClaims = 1, []etcdcluster.Claim{{Name: "test-test-1", Ordinal: 1}}
		}, ""),
		Entry("a claim of a member that runs", func(o *etcdcluster.Observation) {
			o.State.Size, o.ForeignClaims = 3, []etcdcluster.Claim{{Name: "test-test-1", Ordinal: 1}}
		}, "PersistentVolumeClaim test-test-1"),
		Entry("a claim that a restore would delete", func(o *etcdcluster.Observation) {
			o.State.Size, o.State.Restore, o.ForeignClaims = 1, state.RestoreDiscard, []etcdcluster.Claim{{Name: "test-test-1", Ordinal: 1}}
		}, "PersistentVolumeClaim test-test-1"),
	)
})

var _ = Describe("ResolveStore", func() {
	recorded := func(hostPath string) func(*etcdcluster.Observation) {
		return func(o *etcdcluster.Observation) {
			o.State.Store = &state.Store{Provider: "Local", Container: "test-bucket", Prefix: "test-ns/test", HostPath: hostPath}
		}
	}
	mounted := func(folder string) func(*etcdcluster.Observation) {
		return func(o *etcdcluster.Observation) { o.StatefulSet.LocalStore = folder }
	}
	secret := func(hostPath string) func(*etcdcluster.Observation) {
		return func(o *etcdcluster.Observation) { o.LocalStore.HostPath = hostPath }
	}

	DescribeTable("finds the directory of a Local store", func(source target.Source, hostPath, problem string, changes ...func(*etcdcluster.Observation)) {
		o := running()
		for _, change := range changes {
			change(&o)
		}
		t := target.ForNewest(fixture.Etcd(fixture.WithLocalStore()))
		t.Source = source
		Expect(problemOf(t.ResolveStore(o, config, now))).To(HavePrefix(problem))
		Expect(t.StoreResolution).NotTo(BeNil())
		if problem != "" {
			Expect(t.Store).To(BeNil())

			return
		}
		Expect(t.Store.HostPath).To(Equal(hostPath))
	},
		Entry("that its Secret names", target.Newest, "/var/buckets", "", secret("/var/buckets")),
		Entry("not one that the configuration does not list", target.Newest, "", "Refused ERR_RESOLVE_STORE: spec.backup.store", secret("/etc")),
		Entry("not another than the recorded one", target.Newest, "", "Refused ERR_RESOLVE_STORE: spec.backup.store: snapshots went to directory \"/old\"", secret("/var/buckets"), recorded("/old")),
		Entry("not without the Secret", target.Newest, "", "Failed ERR_RESOLVE_STORE: reading Secret x", func(o *etcdcluster.Observation) { o.LocalStore.Error = "reading Secret x: no" }),
		Entry("of the accepted generation, that the StatefulSet mounts", target.LastAccepted, "/old", "", recorded("/old"), mounted("/old/test-bucket")),
		Entry("of the accepted generation, not one that nothing mounts", target.LastAccepted, "", "Refused ERR_RESOLVE_STORE", recorded("/old")),
		Entry("not if the record cannot be read", target.Newest, "", "Refused ERR_RESOLVE_STORE: the annotation", func(o *etcdcluster.Observation) { o.State.StoreError = "no JSON" }),
	)

	Describe("in an object store", func() {
		const before = `{"provider":"S3","container":"test-bucket","prefix":"test-ns/test"`
		record := func(text string) *state.Store {
			GinkgoHelper()
			store, err := state.ParseStore(text)
			Expect(err).NotTo(HaveOccurred())

			return store
		}
		resolve := func(source target.Source, changes ...func(*etcdcluster.Observation)) (*target.Target, string) {
			o := running()
			o.StoreCredentials = etcdcluster.StoreCredentials{SecretName: "etcd-backup", Public: map[string]string{"endpoint": "a.example.org"}}
			for _, change := range changes {
				change(&o)
			}
			t := target.ForNewest(fixture.Etcd(fixture.WithStore("S3")))
			t.Source = source

			return t, problemOf(t.ResolveStore(o, config, now))
		}
		recordedAs := func(text string) func(*etcdcluster.Observation) {
			return func(o *etcdcluster.Observation) { o.State.Store = record(text) }
		}
		lease := func(store string) func(*etcdcluster.Observation) {
			return func(o *etcdcluster.Observation) {
				o.FullSnapshotLease = etcdcluster.Lease{Exists: true, OwnerUID: fixture.Etcd().UID, Store: store, RenewTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
			}
		}
		const base = `S3 container "test-bucket" prefix "test-ns/test"`

		DescribeTable("records its identity", func(expected string, changes ...func(*etcdcluster.Observation)) {
			t, problem := resolve(target.Newest, changes...)
			Expect(problem).To(BeEmpty())
			Expect(t.StoreRecord.Marshal()).To(Equal(before + expected + `,"secretName":"etcd-backup"}`))
		},
			Entry("for the first time", `,"endpoint":"a.example.org"`),
			Entry("which was not known before", `,"endpoint":"a.example.org"`, recordedAs(before+`}`)),
			Entry("which is not known now, as it is recorded", `,"endpoint":"b.example.org"`, recordedAs(before+`,"endpoint":"b.example.org"}`),
				func(o *etcdcluster.Observation) { o.StoreCredentials.Public = nil }),
			Entry("not of another Secret", ``, func(o *etcdcluster.Observation) { o.StoreCredentials.SecretName = "other" }),
		)

		It("is refused with white space around a value of its credentials, unless the cluster has started in it", func() {
			whiteSpace := func(o *etcdcluster.Observation) { o.StoreCredentials.WhiteSpaceKey = "secretAccessKey" }
			t, problem := resolve(target.Newest, whiteSpace)
			Expect(problem).To(And(HavePrefix("Refused ERR_RESOLVE_STORE: "), ContainSubstring("key secretAccessKey in Secret etcd-backup begins or ends with white space")))
			Expect(t.Store).To(BeNil())

			t, problem = resolve(target.Newest, whiteSpace, recordedAs(before+`,"endpoint":"a.example.org"}`))
			Expect(problem).To(BeEmpty())
			Expect(t.Store).NotTo(BeNil())
			Expect(*t.StoreResolution).To(And(HaveField("Reason", "StoreInvalid"), HaveField("Message", ContainSubstring("key secretAccessKey"))))
		})

		It("records when the endpoint changes, and is not verified there", func() {
			t, problem := resolve(target.Newest, recordedAs(before+`,"endpoint":"b.example.org","verifiedAt":"2026-01-01T00:00:00Z"}`), lease(base+` endpoint "b.example.org"`))
			Expect(problem).To(BeEmpty())
			Expect(t.StoreRecord.ChangedAt).To(BeTemporally("~", now, time.Second))
			Expect(t.StoreRecord.VerifiedAt).To(BeZero())
			Expect(t.StoreRecord.Endpoint).To(Equal("a.example.org"))
		})

		DescribeTable("is verified by a full snapshot", func(expected bool, change func(*etcdcluster.Observation)) {
			t, problem := resolve(target.Newest, recordedAs(before+`,"endpoint":"a.example.org"}`), change)
			Expect(problem).To(BeEmpty())
			Expect(!t.StoreRecord.VerifiedAt.IsZero()).To(Equal(expected))
		},
			Entry("in its Lease", true, lease(base+` endpoint "a.example.org"`)),
			Entry("in a Lease without the endpoint", true, lease(base)),
			Entry("not in another store", false, lease(base+` endpoint "b.example.org"`)),
			Entry("not in a Lease without a store", false, lease("")),
			Entry("not of another Etcd", false, func(o *etcdcluster.Observation) {
				lease(base)(o)
				o.FullSnapshotLease.OwnerUID = "other"
			}),
		)

		DescribeTable("is verified after a change of the endpoint", func(expected bool, renewed time.Duration, pods ...time.Duration) {
			changed := now.Add(-time.Hour)
			t, problem := resolve(target.Newest, recordedAs(before+`,"endpoint":"a.example.org","changedAt":"`+changed.Format(time.RFC3339)+`"}`), lease(base+` endpoint "a.example.org"`), func(o *etcdcluster.Observation) {
				o.FullSnapshotLease.RenewTime = changed.Add(renewed)
				o.Etcd.Members = []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1}}
				for ordinal, created := range pods {
					o.Pods = append(o.Pods, etcdcluster.Pod{Ordinal: ordinal, CreationTime: changed.Add(created)})
				}
			})
			Expect(problem).To(BeEmpty())
			Expect(!t.StoreRecord.VerifiedAt.IsZero()).To(Equal(expected))
		},
			Entry("by a full snapshot since the sidecar of the leader uses it", true, 6*time.Minute, -time.Hour),
			Entry("not by an earlier one, which may be in the other store", false, 4*time.Minute, -time.Hour),
			Entry("not by one from before all sidecars use it, although the pod of the leader is new: the former leader may have taken it", false, 2*time.Minute, time.Minute, -time.Hour),
			Entry("by one since all sidecars use it", true, 6*time.Minute, time.Minute, -time.Hour),
			Entry("by one of new pods", true, 4*time.Minute, time.Minute, 3*time.Minute),
			Entry("not by an earlier one, which a pod may have taken that does not exist any more", false, 4*time.Minute),
			Entry("by one since pods that do not exist any more used it", true, 6*time.Minute),
			Entry("not by one from before the pod of the leader", false, 2*time.Minute, 3*time.Minute),
		)

		used := func(change func(*etcdcluster.StoreUser)) func(*etcdcluster.Observation) {
			return func(o *etcdcluster.Observation) {
				user := etcdcluster.StoreUser{Namespace: "tenant", Name: "secret-name", Started: true, Store: *record(before + `,"endpoint":"a.example.org","verifiedAt":"2026-01-01T00:00:00Z"}`)}
				change(&user)
				o.StoreUsers = []etcdcluster.StoreUser{user}
			}
		}
		none := func(*etcdcluster.StoreUser) {}

		DescribeTable("that another object uses is not used", func(problem, reason, message string, change func(*etcdcluster.StoreUser)) {
			t, found := resolve(target.Newest, used(change))
			Expect(found).To(HavePrefix(problem))
			Expect(t.Store).To(BeNil())
			Expect(t.StoreUser).NotTo(BeNil())
			Expect(t.StoreResolution.Reason).To(Equal(reason))
			Expect(t.StoreResolution.Message).To(And(ContainSubstring(message), ContainSubstring(base)))
			if t.StoreUser.Namespace == "tenant" {
				Expect(t.StoreResolution.Message + found).NotTo(Or(ContainSubstring("tenant"), ContainSubstring("secret-name")))
			}
		},
			Entry("another Etcd of another namespace", "Refused ERR_RESOLVE_STORE", "StoreInUse", "an Etcd of another namespace, which the operator's log names, uses it; set another container or prefix", none),
			Entry("an Etcd of another namespace with another prefix, which is not named", "Refused ERR_RESOLVE_STORE", "StoreInUse", "uses a store that overlaps with it", func(u *etcdcluster.StoreUser) { u.Store.Prefix = "test-ns/test/tenant" }),
			Entry("an Etcd of the namespace", "Refused ERR_RESOLVE_STORE", "StoreInUse", "Etcd other uses prefix \"test-ns/test-2\"", func(u *etcdcluster.StoreUser) {
				u.Namespace, u.Name, u.Store.Prefix = "test-ns", "other", "test-ns/test-2"
			}),
			Entry("an Etcd that is being deleted", "Waiting", "StoreInUse", "is being deleted", func(u *etcdcluster.StoreUser) { u.Deleting = true }),
			Entry("a copy", "Waiting", "StoreCopyInProgress", "EtcdCopyBackupsTask main copies snapshots to it; the members start when the copy has ended", func(u *etcdcluster.StoreUser) {
				u.Namespace, u.Name, u.IsCopy = "test-ns", "main", true
			}),
		)

		younger := func(user *etcdcluster.StoreUser) { user.Started, user.CreationTime = false, time.Time{} }

		DescribeTable("is kept without the record, because a Lease names it", func(isVerified bool, change func(*etcdcluster.Observation)) {
			t, problem := resolve(target.Newest, used(younger), change)
			Expect(problem).To(BeEmpty())
			Expect(t.StoreUser).To(BeNil())
			Expect(!t.StoreRecord.VerifiedAt.IsZero()).To(Equal(isVerified))
		},
			Entry("that of full snapshots", true, lease(base+` endpoint "a.example.org"`)),
			Entry("that of delta snapshots", false, func(o *etcdcluster.Observation) {
				lease(base + ` endpoint "a.example.org"`)(o)
				o.DeltaSnapshotLease, o.FullSnapshotLease = o.FullSnapshotLease, etcdcluster.Lease{}
			}),
		)

		It("of GCS is kept after a change to credentials of another project, because its container is the same", func() {
			const recordOfP = `{"provider":"GCS","container":"test-bucket","prefix":"test-ns/test","endpoint":"googleapis.com","account":"p"}`
			o := running()
			o.State.Store = record(recordOfP)
			o.StoreCredentials = etcdcluster.StoreCredentials{SecretName: "etcd-backup", Public: map[string]string{"projectID": "q"}}
			o.StoreUsers = []etcdcluster.StoreUser{{Namespace: "tenant", Name: "other", Store: *record(recordOfP)}}
			t := target.ForNewest(fixture.Etcd(fixture.WithStore("GCS")))
			Expect(t.ResolveStore(o, config, now)).To(Succeed())
			Expect(t.StoreRecord.ChangedAt).To(BeTemporally("~", now, time.Second), "it may lead to another store")
		})

		It("is kept after a change of the endpoint and back, because a Lease names it", func() {
			_, problem := resolve(target.Newest, recordedAs(before+`,"endpoint":"b.example.org"}`), used(younger), lease(base+` endpoint "a.example.org"`))
			Expect(problem).To(BeEmpty())
		})

		It("is used on by the last accepted generation of a cluster that runs in it", func() {
			started := recordedAs(before + `,"endpoint":"a.example.org"}`)
			_, problem := resolve(target.Newest, started, used(none))
			Expect(problem).To(HavePrefix("Refused"))
			t, problem := resolve(target.LastAccepted, started, used(none))
			Expect(problem).To(BeEmpty())
			Expect(t.Store).NotTo(BeNil())
			Expect(t.StoreResolution.Reason).To(Equal("StoreInUse"))
		})

		It("is used if the other Etcd is another endpoint's, or unknown", func() {
			for _, endpoint := range []string{"b.example.org", ""} {
				_, problem := resolve(target.Newest, used(func(u *etcdcluster.StoreUser) { u.Store.Endpoint = endpoint }))
				Expect(problem).To(BeEmpty())
			}
		})
	})

	It("resolves nothing without a store", func() {
		t := target.ForNewest(fixture.Etcd())
		Expect(t.ResolveStore(running(), config, now)).To(Succeed())
		Expect(t.Store).To(BeNil())
	})
})

var _ = Describe("ResolveTLS", func() {
	It("fails without the facts that it depends on", func() {
		o := running()
		o.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionSecrets, Message: "no"}}
		Expect(problemOf(target.ForNewest(fixture.Etcd()).ResolveTLS(o, now))).To(Equal("Failed ERR_OBSERVE: reading Secrets: no"))
	})

	It("begins a rotation that is requested, until it is recorded", func() {
		etcd := fixture.Etcd(fixture.WithAnnotation("druid.gardener.cloud/rotate-ca", "start"))
		etcd.Spec.Etcd.EnableTLS = new(true)
		t, o := target.ForNewest(etcd), running()
		o.State.TLS, o.State.Rotation = state.TLSModes{Client: state.ModeManaged, Peer: state.ModeManaged}, &state.Rotation{}
		o.Issued = []etcdcluster.IssuedSecret{{Name: "test-client-ca-1", ConfigName: secrets.ConfigNamesFor("test").ClientCA, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1e5 * time.Hour)}}
		o.StatefulSet.TLS = etcdcluster.MountedTLS{ClientCA: "test-client-ca-1", Server: "test-server-1", PeerCA: "test-peer-ca-1", Peer: "test-peer-1"}
		Expect(t.ResolveTLS(o, now)).To(Succeed())
		Expect(t.TLS).To(Equal(o.State.TLS))
		Expect(t.Rotation).To(And(HaveField("Stage", state.StagePrepareBundle), HaveField("StartedAt", BeTemporally("==", now))))
		Expect(t.BeginsRotation(o)).To(BeTrue())

		o.State.Rotation = &t.Rotation
		Expect(t.ResolveTLS(o, now.Add(time.Hour))).To(Succeed())
		Expect(t.BeginsRotation(o)).To(BeFalse())
	})
})

var _ = Describe("ResolveCertificates", func() {
	const first, second = "e2ddcb9f", "0a7c1a5b"
	var (
		t *target.Target
		o etcdcluster.Observation
		// checksum is that of the first certificates.
		checksum string
	)

	BeforeEach(func() {
		t, o = target.ForNewest(fixture.Etcd(fixture.WithTLS())), running()
		t.Etcd.Spec.Etcd.ClientUrlTLS.TLSCASecretRef.DataKey = nil
		t.Accepted = &state.Accepted{CADataKeys: map[string]string{"client-ca": "bundle.crt"}}
		o.StatefulSet.TLS = etcdcluster.TLSOf(t.Etcd)
		o.Secrets = []etcdcluster.Secret{{Name: "other", Exists: true, CertificateChecksums: map[string]string{"tls.crt": first}}}
		data := fixture.Certificates(t.Etcd.Name, t.Etcd.Namespace)
		for _, use := range helper.TLSSecrets(t.Etcd) {
			o.Secrets = append(o.Secrets, etcdcluster.Secret{
				Name: use.Name, Exists: true, CertificateChecksums: map[string]string{"tls.crt": first, "ca.crt": first, "bundle.crt": first},
				Certificates: etcdcluster.CertificatesIn(data),
			})
		}
		Expect(t.ResolveCertificates(o, now)).To(BeZero())
		Expect(t.RenewedCertificates()).To(BeEmpty())
		checksum = t.Certificates.First
		Expect(checksum).To(MatchRegexp("^[0-9a-f]{64}$"))
		o.State.Accepted.Certificates = t.Certificates
	})

	change := func(name, key string) {
		GinkgoHelper()
		for i := range o.Secrets {
			if o.Secrets[i].Name == name {
				o.Secrets[i].CertificateChecksums[key] = second

				return
			}
		}
		Fail("no Secret " + name)
	}

	DescribeTable("finds a renewal", func(name, key string) {
		change(name, key)
		Expect(t.ResolveCertificates(o, now)).To(BeZero())
		Expect(t.Certificates).To(HaveField("First", checksum))
		Expect(t.RenewedCertificates()).To(MatchRegexp("^[0-9a-f]{64}$"))
	},
		Entry("of a server", "client-server", "tls.crt"),
		Entry("of a client", "client-client", "tls.crt"),
		Entry("of a CA under its usual key", "peer-ca", "ca.crt"),
		Entry("of a CA under the key that the pods mount", "client-ca", "bundle.crt"),
		Entry("of the sidecar", "backup-server", "tls.crt"),
	)

	DescribeTable("restarts nothing", func(change func(), expected func() *state.Certificates) {
		change()
		Expect(t.ResolveCertificates(o, now)).To(BeZero())
		Expect(t.Certificates).To(Equal(expected()))
	},
		Entry("if nothing changed", func() {}, func() *state.Certificates { return &state.Certificates{First: checksum} }),
		Entry("if a key changed that the pods do not mount", func() { change("client-ca", "ca.crt"); change("other", "tls.crt") }, func() *state.Certificates { return &state.Certificates{First: checksum} }),
		Entry("if a Secret is missing", func() {
			change("client-server", "tls.crt")
			o.Secrets = slices.DeleteFunc(o.Secrets, func(secret etcdcluster.Secret) bool { return secret.Name == "peer-ca" })
		}, func() *state.Certificates { return &state.Certificates{First: checksum} }),
		Entry("if a Secret contains no certificate after a renewal", func() {
			o.State.Accepted.Certificates = &state.Certificates{First: checksum, Renewed: second}
			o.Secrets[1].CertificateChecksums = nil
		}, func() *state.Certificates { return &state.Certificates{First: checksum, Renewed: second} }),
		Entry("if nothing is recorded", func() { o.State.Accepted.Certificates = nil }, func() *state.Certificates { return &state.Certificates{First: checksum} }),
		Entry("if nothing is recorded and pods have the checksum", func() {
			o.State.Accepted.Certificates, o.Pods = nil, []etcdcluster.Pod{{}, {CertificatesChecksum: checksum}}
		}, func() *state.Certificates { return &state.Certificates{Renewed: checksum} }),
		Entry("if nothing is accepted yet", func() { o.State.Accepted = nil }, func() *state.Certificates { return &state.Certificates{First: checksum} }),
		Entry("if the spec names no certificates", func() { t.Etcd = fixture.Etcd() }, func() *state.Certificates { return nil }),
		Entry("if the operator issues the certificates", func() {
			t.Etcd = fixture.Etcd()
			t.TLS = state.TLSModes{Client: state.ModeManaged, Peer: state.ModeManaged}
			t.SetSecrets(secrets.Names{ClientCA: "client-ca", Server: "client-server", Client: "client-client", PeerCA: "peer-ca", Peer: "peer-server"})
			Expect(helper.TLSSecrets(t.Etcd)).NotTo(BeEmpty())
		}, func() *state.Certificates { return nil }),
	)

	It("waits a minute for other renewals", func() {
		change("client-server", "tls.crt")
		o.Secrets[3].Certificates[0].NotBefore = now.Add(-20 * time.Second)
		Expect(t.ResolveCertificates(o, now)).To(Equal(40 * time.Second))
		Expect(t.RenewedCertificates()).To(BeEmpty())
		Expect(t.ResolveCertificates(o, now.Add(40*time.Second))).To(BeZero())
		Expect(t.RenewedCertificates()).NotTo(BeEmpty())

		o.Secrets[3].Certificates[0].NotBefore = now.Add(time.Hour)
		Expect(t.ResolveCertificates(o, now)).To(BeZero(), "the certificate is not valid yet")
	})

	It("records other Secrets without a restart of their own, even if they are new", func() {
		o.StatefulSet.TLS.Server = "earlier"
		change("client-server", "tls.crt")
		o.Secrets[3].Certificates[0].NotBefore = now.Add(-20 * time.Second)
		o.State.Accepted.Certificates = &state.Certificates{First: checksum, Renewed: second}
		Expect(t.ResolveCertificates(o, now)).To(BeZero())
		Expect(t.Certificates).To(And(HaveField("First", Not(Equal(checksum))), HaveField("Renewed", BeEmpty())))
	})

	It("records nothing before the last stage of a change to another CA", func() {
		o.StatefulSet.TLS.Server = "earlier"
		change("client-server", "tls.crt")
		t.CAChange.IsPartial = true
		Expect(t.ResolveCertificates(o, now)).To(BeZero())
		Expect(t.Certificates).To(Equal(&state.Certificates{First: checksum}))
	})

	It("returns to the first certificates", func() {
		o.State.Accepted.Certificates = &state.Certificates{First: checksum, Renewed: second}
		Expect(t.ResolveCertificates(o, now)).To(BeZero())
		Expect(t.Certificates).To(Equal(&state.Certificates{First: checksum}))
	})

	It("finds pods with other certificates", func() {
		o.Pods = []etcdcluster.Pod{{}, {}}
		Expect(t.HasNewerSecrets(o)).To(BeFalse())
		t.Certificates = &state.Certificates{First: first, Renewed: second}
		Expect(t.HasNewerSecrets(o)).To(BeTrue())
		o.Pods[0].CertificatesChecksum, o.Pods[1].CertificatesChecksum = second, second
		Expect(t.HasNewerSecrets(o)).To(BeFalse())
		t.Certificates.Renewed = ""
		Expect(t.HasNewerSecrets(o)).To(BeTrue())
	})
})
