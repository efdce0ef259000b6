// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package clusters_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// parallelRuns is the number of runs that share the API server.
const parallelRuns = 6

// scenario is a change of an Etcd.
type scenario struct {
	name string
	// given are the steps that create the initial state. An uninterrupted operator reconciles each step.
	given []func(context.Context, string)
	// when is the tested change.
	when func(context.Context, string)
}

func create(replicas int32) func(context.Context, string) {
	return func(ctx context.Context, namespace string) {
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main"}}
		etcd.Spec.Replicas, etcd.Spec.Labels = replicas, map[string]string{"role": "main"}
		etcd.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicyDeleteAll)
		Expect(env.Client.Create(ctx, etcd)).To(Succeed())
	}
}

func update(mutate func(*druidv1alpha1.Etcd)) func(context.Context, string) {
	return func(ctx context.Context, namespace string) {
		Eventually(func() error {
			etcd := &druidv1alpha1.Etcd{}
			if err := env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "main"}, etcd); err != nil {
				return err
			}
			mutate(etcd)
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/operation", "reconcile")
			return env.Client.Update(ctx, etcd)
		}).Should(Succeed())
	}
}

func resize(replicas int32) func(context.Context, string) {
	return update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = replicas })
}

func remove(ctx context.Context, namespace string) {
	Expect(env.Client.Delete(ctx, &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main"}})).To(Succeed())
}

func scenarios() []scenario {
	one, three := []func(context.Context, string){create(1)}, []func(context.Context, string){create(3)}
	return []scenario{
		{name: "creating one member", when: create(1)},
		{name: "creating three members", when: create(3)},
		{name: "scaling up from one to three members", given: one, when: resize(3)},
		{name: "replacing the pods of three members", given: three, when: update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["role"] = "other" })},
		{name: "hibernating three members", given: three, when: resize(0)},
		{name: "waking up three members", given: append(three[:1:1], resize(0)), when: resize(3)},
		{name: "rotating the CAs of one member", given: one, when: update(func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/rotate-ca", "start")
		})},
		{name: "deleting three members and their volumes", given: three, when: remove},
	}
}

// runScenario runs a scenario in its own namespace. The test kills the process p at one write, and another process completes the
// scenario. runScenario returns the namespace when the Etcd is reconciled or deleted.
func runScenario(ctx context.Context, s scenario, p *process) string {
	namespace := env.Namespace(ctx, "clusters")
	etcds := &members{namespace: namespace}
	if len(s.given) > 0 {
		stop := (&process{}).start(namespace, etcds)
		for _, step := range s.given {
			step(ctx, namespace)
			Eventually(isReconciled).WithArguments(ctx, namespace).Should(BeTrue())
		}
		stop()
	}
	s.when(ctx, namespace)
	stop := p.start(namespace, etcds)
	Eventually(func() bool { return p.isKilled() || isReconciled(ctx, namespace) }).Should(BeTrue(), s.name)
	stop()
	if p.isKilled() {
		stop := (&process{}).start(namespace, etcds)
		defer stop()
		Eventually(isReconciled).WithArguments(ctx, namespace).Should(BeTrue(), "%s, killed at write %d", s.name, p.killAt)
	}
	return namespace
}

// isReconciled returns true if the Etcd is reconciled or deleted.
func isReconciled(ctx context.Context, namespace string) bool {
	etcd := &druidv1alpha1.Etcd{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "main"}, etcd); err != nil {
		return client.IgnoreNotFound(err) == nil
	}
	_, isRequested := etcd.Annotations["druid.gardener.cloud/operation"]
	last, observed := etcd.Status.LastOperation, etcd.Status.ObservedGeneration
	return !isRequested && last != nil && last.State == "Succeeded" && observed != nil && *observed == etcd.Generation && etcd.DeletionTimestamp == nil
}

// snapshot returns the state of all objects in a namespace without nondeterministic values.
func snapshot(ctx context.Context, namespace string) []string {
	var objects []client.Object
	for _, list := range []client.ObjectList{
		&druidv1alpha1.EtcdList{}, &resourcesv1alpha1.ManagedResourceList{}, &appsv1.StatefulSetList{}, &corev1.PodList{},
		&corev1.PersistentVolumeClaimList{}, &coordinationv1.LeaseList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{},
		&corev1.ServiceAccountList{}, &policyv1.PodDisruptionBudgetList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		Expect(env.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(meta.EachListItem(list, func(item runtime.Object) error {
			if mr, is := item.(*resourcesv1alpha1.ManagedResource); is {
				mr.Status = resourcesv1alpha1.ManagedResourceStatus{} // the time of the health check is not deterministic
			}
			objects = append(objects, item.(client.Object))
			return nil
		})).To(Succeed())
	}
	return kube.SnapshotOf(env.Client.Scheme(), objects)
}

// runParallel calls do with 0 to count-1, at most parallelRuns calls at a time.
func runParallel(count int, do func(int)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, parallelRuns)
	for i := range count {
		slots <- struct{}{}
		group.Go(func() {
			defer GinkgoRecover()
			defer func() { <-slots }()
			do(i)
		})
	}
	group.Wait()
}

var _ = Describe("An operator that is killed at some of its writes, with the real gardener-resource-manager", func() {
	It("comes to the same result as an uninterrupted operator", func(ctx SpecContext) {
		seed := crashSeed()
		random := rand.New(rand.NewPCG(seed, seed)) // #nosec G404 -- a sample, no secret
		sample := sampleSize()
		fmt.Printf("\nCRASH_SEED=%d\n", seed)

		all := scenarios()
		references, writes := make([][]string, len(all)), make([]int, len(all))
		runParallel(len(all), func(i int) {
			undisturbed := &process{}
			references[i] = snapshot(ctx, runScenario(ctx, all[i], undisturbed))
			writes[i] = undisturbed.writes
		})
		Expect(writes).NotTo(ContainElement(0))

		var kills []int // the index of the scenario, once for each point at which the operator can be killed
		for i, count := range writes {
			for range 2 * count {
				kills = append(kills, i)
			}
		}
		total := len(kills)
		random.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
		kills = kills[:sample]
		processes := make([]*process, sample)
		for i, kill := range kills {
			processes[i] = &process{killAt: 1 + random.IntN(writes[kill]), after: random.IntN(2) == 1}
		}

		reached := 0
		var lock sync.Mutex
		runParallel(sample, func(i int) {
			s, p := all[kills[i]], processes[i]
			namespace := runScenario(ctx, s, p)
			for range 2 { // if this run of the scenario needed fewer writes
				if !p.isKilled() {
					p = &process{killAt: 1 + p.killAt%p.writes, after: p.after}
					namespace = runScenario(ctx, s, p)
				}
			}
			what := fmt.Sprintf("%s, killed at write %d of %d, after it: %t", s.name, p.killAt, writes[kills[i]], p.after)
			Eventually(func() string {
				return strings.Join(kube.Differences(references[kills[i]], snapshot(ctx, namespace)), "\n")
			}).Should(BeEmpty(), what)
			lock.Lock()
			defer lock.Unlock()
			if p.isKilled() {
				reached++
			}
		})
		fmt.Printf("Tested %d of %d possible kills of the operator in %d scenarios with the real gardener-resource-manager, %d of them were reached\n", sample, total, len(all), reached)
		Expect(reached).To(BeNumerically(">=", sample-2), "the number of writes differs only slightly between runs")
	}, SpecTimeout(15*time.Minute))
})

// sampleSize is the number of tested kills: 10, or 30 if KILLS is `all`, as in `make test-all`. pkg/controller/etcd tests kills at all writes in memory.
func sampleSize() int {
	if os.Getenv("KILLS") == "all" {
		return 30
	}
	return 10
}

// crashSeed returns the seed in the environment variable CRASH_SEED: a number, or `random` for a new seed in each run. The default is
// always the same seed, so that only a code change can cause a new failure.
func crashSeed() uint64 {
	switch text := os.Getenv("CRASH_SEED"); text {
	case "":
		return 1
	case "random":
		return uint64(time.Now().UnixNano()) // #nosec G115 -- any number does
	default:
		seed, err := strconv.ParseUint(text, 10, 64)
		Expect(err).NotTo(HaveOccurred())

		return seed
	}
}
