// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

const (
	healthyEtcds = 300
	// samples is the number of healthy Etcds that are measured without hostile Etcds, and of other healthy Etcds that are measured with them.
	samples = 20
	// unresponsiveEtcds and unresponsivePods together exceed the number of workers of the care controller. unresponsivePods is more than
	// twice the number of workers of the Etcd controller. Higher numbers need too much CPU time on a machine with two cores.
	unresponsiveEtcds = 10
	unresponsivePods  = 8
	// hostileAddresses is the number of addresses in a spec that the schema would reject.
	hostileAddresses = 5000
	// writers is the number of concurrent requests of the test.
	writers = 8
	// polling is the interval at which the test reads a measured Etcd.
	polling = 50 * time.Millisecond
	// busyMachine is the duration of a change without hostile Etcds above which single changes are not compared.
	busyMachine = 500 * time.Millisecond
)

// hosts are the addresses of the healthy members with the IDs 1 and 2.
var hosts = []string{"127.0.0.2", "127.0.0.3"}

func defaults() state.Defaults {
	return state.Defaults{ImageSets: map[string]state.Images{"3.4": {EtcdWrapper: "etcd", BackupRestore: "backup", Init: "init"}}}
}

// each calls do with each Etcd, with at most writers calls at the same time.
func each(etcds []*druidv1alpha1.Etcd, do func(*druidv1alpha1.Etcd)) {
	GinkgoHelper()
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			defer GinkgoRecover()
			for j := i; j < len(etcds); j += writers {
				do(etcds[j])
			}
		})
	}
	group.Wait()
}

func newEtcd(namespace, name string, port int, addresses ...string) *druidv1alpha1.Etcd {
	return fixture.Etcd(fixture.WithNamespace(namespace), fixture.WithName(name), fixture.WithReplicas(int32(len(addresses))), func(e *druidv1alpha1.Etcd) { // #nosec G115 -- at most 7 addresses
		e.UID, e.Generation = "", 0
		e.Spec.Etcd.EnableTLS, e.Spec.Etcd.ClientPort = new(false), new(int32(port)) // #nosec G115 -- a port
		e.Spec.ExternallyManagedMemberAddresses = addresses
	})
}

func create(etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	Expect(env.Client.Create(ctx, etcd)).To(Succeed())
}

// newHealthy returns healthy Etcds with one member. The reconciliation of those that are not measured is suspended.
func newHealthy(namespace string, port, count int) []*druidv1alpha1.Etcd {
	var etcds []*druidv1alpha1.Etcd
	for i := range count {
		etcd := newEtcd(namespace, fmt.Sprintf("healthy-%d", i), port, hosts[0])
		if i >= 2*samples {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidv1alpha1.SuspendEtcdSpecReconcileAnnotation, "")
		}
		etcds = append(etcds, etcd)
	}

	return etcds
}

// eventuallyReported waits until both controllers have written the status of all Etcds in a namespace.
func eventuallyReported(namespace string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		list := &druidv1alpha1.EtcdList{}
		g.Expect(env.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		for i := range list.Items {
			g.Expect(isReported(&list.Items[i], 0)).To(BeTrue(), list.Items[i].Name)
			if !metav1.HasAnnotation(list.Items[i].ObjectMeta, druidv1alpha1.SuspendEtcdSpecReconcileAnnotation) {
				g.Expect(payloadOf(&list.Items[i])).NotTo(BeEmpty(), list.Items[i].Name)
			}
		}
	}).WithPolling(2 * time.Second).WithTimeout(5 * time.Minute).Should(Succeed())
}

// isReported returns true if the care controller has reported the member with this host and the Etcd controller has reported the progress.
func isReported(etcd *druidv1alpha1.Etcd, host int) bool {
	if len(etcd.Status.Members) != 1 || etcd.Status.Members[0].ID == nil || *etcd.Status.Members[0].ID != fmt.Sprintf("%x", host+1) {
		return false
	}

	return slices.ContainsFunc(etcd.Status.Conditions, func(c druidv1alpha1.Condition) bool { return c.Type == druidv1alpha1.ConditionTypeReconciled })
}

// payloadOf returns the name of the Secret with the rendered manifests of an Etcd, or an empty string. A change of the manifests changes the name.
func payloadOf(etcd *druidv1alpha1.Etcd) string {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: "druid-" + etcd.Name}, mr); err != nil || len(mr.Spec.SecretRefs) != 1 {
		return ""
	}

	return mr.Spec.SecretRefs[0].Name
}

// move changes the address of a healthy Etcd to that of another member. It returns the time until the care controller has reported that
// member, and the time until the Etcd controller has written the new manifests.
func move(etcd *druidv1alpha1.Etcd) (health, rollout time.Duration) {
	GinkgoHelper()
	payload := payloadOf(etcd)
	Expect(payload).NotTo(BeEmpty())
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"externallyManagedMemberAddresses":[%q]}}`, hosts[1]))
	began := time.Now()
	Expect(env.Client.Patch(ctx, etcd, patch)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		if health == 0 && isReported(etcd, 1) {
			health = time.Since(began)
		}
		if rollout == 0 && !slices.Contains([]string{"", payload}, payloadOf(etcd)) {
			rollout = time.Since(began)
		}
		g.Expect(health).NotTo(BeZero(), "health of %s", etcd.Name)
		g.Expect(rollout).NotTo(BeZero(), "rollout of %s", etcd.Name)
	}).WithPolling(polling).Should(Succeed())

	return health, rollout
}

// measure changes the addresses of healthy Etcds one after another.
func measure(healthy []*druidv1alpha1.Etcd) delays {
	GinkgoHelper()
	var measured delays
	for _, etcd := range healthy {
		measured.add(move(etcd))
	}

	return measured
}

// delays are the durations until the health of changed Etcds was reported and until their new manifests were written.
type delays struct{ health, rollout []time.Duration }

func (d *delays) add(health, rollout time.Duration) {
	d.health, d.rollout = append(d.health, health), append(d.rollout, rollout)
}

// expectWithinASecond expects that hostile Etcds delay no change by a second or more. It compares the slowest change with the slowest change
// without hostile Etcds, the second slowest with the second slowest, and so on.
//
// On a busy machine, a request to a healthy member may take a second. The operator then treats healthy Etcds as slow Etcds. Therefore the
// test evaluates only the median and the 90th percentile if a change without hostile Etcds takes half a second or longer. Without a limit for
// slow Etcds, the median increases by several seconds.
func expectWithinASecond(what string, with, without []time.Duration) {
	GinkgoHelper()
	Expect(with).To(HaveLen(samples))
	Expect(without).To(HaveLen(samples))
	slices.Sort(with)
	slices.Sort(without)
	slowest := without[samples-1]
	AddReportEntry(what, fmt.Sprintf("median %s and slowest %s with hostile Etcds, %s and %s without",
		with[samples/2], with[samples-1], without[samples/2], slowest), ReportEntryVisibilityAlways)
	if slowest >= busyMachine {
		AddReportEntry(what+": evaluated as on a busy machine", ReportEntryVisibilityAlways)
		Expect(with[samples/2]-without[samples/2]).To(BeNumerically("<", max(time.Second, without[samples/2])), "median of %s", what)
		Expect(with[samples*9/10]-without[samples*9/10]).To(BeNumerically("<", max(5*time.Second, 2*without[samples*9/10])), "90th percentile of %s", what)

		return
	}
	for i := range samples {
		Expect(with[i]-without[i]).To(BeNumerically("<", time.Second),
			"%s: change %d of %d took %s with hostile Etcds, and %s without", what, i+1, samples, with[i], without[i])
	}
}

// unresponsiveMembers creates an Etcd whose members accept connections and never respond.
func unresponsiveMembers(namespace, name string, port int, host string) *druidv1alpha1.Etcd {
	GinkgoHelper()
	etcd := newEtcd(namespace, name, port)
	etcd.Spec.Replicas = 3
	create(etcd)
	for ordinal := range 3 {
		createPod(etcd, ordinal, host)
	}

	return etcd
}

func createPod(etcd *druidv1alpha1.Etcd, ordinal int, host string) {
	GinkgoHelper()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "etcd", Image: "etcd", Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: *etcd.Spec.Etcd.ClientPort}},
	}}}}
	pod.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", etcd.Name, ordinal), Namespace: etcd.Namespace, Labels: map[string]string{
		"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": etcd.Name, "app.kubernetes.io/component": "etcd-statefulset",
	}}
	Expect(env.Client.Create(ctx, pod)).To(Succeed())
	pod.Status.PodIP, pod.Status.PodIPs = host, []corev1.PodIP{{IP: host}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
	Expect(env.Client.Status().Update(ctx, pod)).To(Succeed())
}

// attack creates all hostile Etcds and returns when they are active.
func attack(port int) {
	GinkgoHelper()
	var hosts []string
	for i := range 3 {
		hosts = append(hosts, fmt.Sprintf("127.0.1.%d", i+1))
		serveNothing(hosts[i], port)
	}
	var changing []*druidv1alpha1.Etcd
	for i := range unresponsiveEtcds {
		etcd := newEtcd(hostile, fmt.Sprintf("unresponsive-%d", i), port, hosts...)
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidv1alpha1.SuspendEtcdSpecReconcileAnnotation, "")
		create(etcd)
	}
	for i := range unresponsivePods {
		changing = append(changing, unresponsiveMembers(hostile, fmt.Sprintf("pods-%d", i), port, hosts[0]))
	}
	task := endlessSidecar(port)
	Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		g.Expect(task.Status.StartedAt).NotTo(BeNil())
		list := &druidv1alpha1.EtcdList{}
		g.Expect(env.Client.List(ctx, list, client.InNamespace(hostile))).To(Succeed())
		for _, etcd := range list.Items {
			for _, conditionType := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionTypeReconciled} {
				g.Expect(etcd.Status.Conditions).To(ContainElement(HaveField("Type", conditionType)), etcd.Name)
			}
		}
	}).WithPolling(500*time.Millisecond).Should(Succeed(), "both controllers have sent requests to the hostile members and the hostile sidecar")

	var addresses []string
	for i := range hostileAddresses {
		addresses = append(addresses, fmt.Sprintf("127.1.%d.%d", i/250, i%250+1))
	}
	tooMany := newEtcd(hostile, "addresses", port, addresses...)
	create(tooMany)
	keepChanging(append(changing, tooMany))
}

// endlessSidecar creates an Etcd whose sidecar sends endless responses, and a snapshot task.
func endlessSidecar(port int) *druidv1alpha1.EtcdOpsTask {
	GinkgoHelper()
	endless := newEtcd(hostile, "sidecar", port)
	endless.Spec.Replicas, endless.Spec.Backup.Port = 1, new(int32(environment.FreePort())) // #nosec G115 -- a port
	serveMember("127.0.2.1", port, 9)
	serveEndlessly("127.0.2.1", int(*endless.Spec.Backup.Port))
	fixture.WithStore("S3")(endless)
	create(endless)
	createPod(endless, 0, "127.0.2.1")
	task := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Namespace: hostile, Name: "endless"}, Spec: druidv1alpha1.EtcdOpsTaskSpec{
		EtcdName: &endless.Name, Config: druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeFull}},
	}}
	Expect(env.Client.Create(ctx, task)).To(Succeed())

	return task
}

// keepChanging changes the specs of the Etcds every two seconds until the end of the spec, so that the Etcd controller reconciles them.
func keepChanging(etcds []*druidv1alpha1.Etcd) {
	changing, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(2 * time.Second)
		defer ticker.Stop()
		for round := 0; changing.Err() == nil; round++ {
			for _, etcd := range etcds {
				patch := fmt.Sprintf(`{"spec":{"labels":{"round":"%d"}}}`, round)
				_ = env.Client.Patch(changing, &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: etcd.Name}},
					client.RawPatch("application/merge-patch+json", []byte(patch))) // the next round retries
			}
			select {
			case <-ticker.C:
			case <-changing.Done():
			}
		}
	}()
	DeferCleanup(func() { cancel(); <-done })
}

var _ = Describe("Hostile members, sidecars and specs", func() {
	It("delay 300 healthy Etcds by less than a second", func() {
		port := environment.FreePort()
		for i, host := range hosts {
			serveMember(host, port, uint64(i)+1)
		}
		healthy := newHealthy(measured, port, healthyEtcds)
		each(healthy, create)
		eventuallyReported(measured)

		without := measure(healthy[:samples])
		attack(port)
		with := measure(healthy[samples : 2*samples])
		expectWithinASecond("health", with.health, without.health)
		expectWithinASecond("rollout", with.rollout, without.rollout)
	})
})
