// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("The Secret with which applications connect", func() {
	var (
		ctx   = context.Background()
		k     *kube.Cluster
		drive *operator
		trial *trialClient
		// written are the ports that were written, each with the client ports of the pods at that time.
		written []string
		// touched are the writes to Secrets.
		touched []string

		isInvalid = apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "main", nil)
		isBusy    = apierrors.NewInternalError(fmt.Errorf("a webhook does not answer"))
	)

	connection := func() map[string][]byte {
		GinkgoHelper()
		secret := &corev1.Secret{}
		if err := k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-connection"}, secret); err != nil {
			Expect(err).To(MatchError(apierrors.IsNotFound, "is not found"))
		}
		return secret.Data
	}
	// ports returns the client ports of the pods, or that of the StatefulSet if there are none.
	ports := func() []string {
		var all []string
		add := func(spec corev1.PodSpec) {
			for _, port := range spec.Containers[0].Ports {
				if port.Name == "client" {
					all = append(all, fmt.Sprint(port.ContainerPort))
				}
			}
		}
		list := &corev1.PodList{}
		must(k.Client(nil).List(ctx, list))
		for _, pod := range list.Items {
			add(pod.Spec)
		}
		if len(list.Items) == 0 {
			statefulSet := &appsv1.StatefulSet{}
			must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main"}, statefulSet))
			add(statefulSet.Spec.Template.Spec)
		}
		return all
	}
	issued := func() map[string]string {
		uids := map[string]string{}
		list := &corev1.SecretList{}
		must(k.Client(nil).List(ctx, list, client.MatchingLabels{"managed-by": "secrets-manager"}))
		for _, secret := range list.Items {
			uids[secret.Name] = string(secret.UID)
		}
		return uids
	}
	// issuedFor returns the Secrets that were issued for a config.
	issuedFor := func(config string) []corev1.Secret {
		list := &corev1.SecretList{}
		must(k.Client(nil).List(ctx, list, client.MatchingLabels{"managed-by": "secrets-manager", "name": config}))
		return list.Items
	}
	commonName := func(certificate []byte) string {
		GinkgoHelper()
		block, _ := pem.Decode(certificate)
		parsed, err := x509.ParseCertificate(block.Bytes)
		Expect(err).NotTo(HaveOccurred())
		return parsed.Subject.CommonName
	}
	start := func(replicas int32, options ...func(*druidv1alpha1.Etcd)) {
		GinkgoHelper()
		k, written, touched = reconciledCluster(replicas, options...), nil, nil
		drive = startOperator(k, func(write kube.Write) {
			if write.Done && strings.Contains(write.What, " Secret ") {
				touched = append(touched, write.What)
				Expect(len(touched)).To(BeNumerically("<", 50), "the passes never end: %v", touched)
			}
			if write.Done && strings.HasSuffix(write.What, " Secret main-connection") && connection() != nil {
				endpoint := string(connection()["endpoints"])
				written = append(written, endpoint[strings.LastIndex(endpoint, ":")+1:]+" of "+strings.Join(slices.Compact(slices.Sorted(slices.Values(ports()))), ","))
			}
		})
		trial = &trialClient{Client: drive.reconciler.Client}
		drive.reconciler.Client = trial
	}
	request := func(mutate func(*druidv1alpha1.Etcd)) {
		update(func(etcd *druidv1alpha1.Etcd) {
			relabel(etcd)
			mutate(etcd)
		})(k)
		drive.due = k.Clock.Now()
		drive.run()
	}
	rollOut := func() {
		GinkgoHelper()
		trial.response = nil
		drive.due = k.Clock.Now()
		drive.run()
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")), "%+v", k.EtcdObject().Status)
		Expect(k.Violations).To(BeEmpty())
	}

	DescribeTable("has the active client port of the members, while another one", func(response error) {
		start(3)
		trial.response = response
		request(otherPort)
		Expect(trial.tried).To(BeNumerically(">", 0))
		Expect(touched).To(BeEmpty())

		By("having renewed certificates nevertheless")
		before := connection()
		k.Clock.Step(600 * 24 * time.Hour)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(connection()["tls.crt"]).NotTo(Equal(before["tls.crt"]))
		Expect(written).To(ConsistOf("2379 of 2379"))

		By("having the other port as soon as a member is healthy there")
		written = nil
		rollOut()
		Expect(written).To(ConsistOf("12379 of 12379,2379"))
		Expect(ports()).To(HaveEach("12379"))
	},
		Entry("is refused", isInvalid),
		Entry("cannot be tried", isBusy),
	)

	It("has the port at which a cluster that hibernates will serve, when that is applied", func() {
		start(1)
		request(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })
		written = nil
		request(otherPort)
		Expect(written).To(ConsistOf("12379 of 12379"))
	})

	DescribeTable("does not exist before members use issued certificates for TLS, and these stay while that", func(response error) {
		start(3, plaintext)
		trial.response = response
		request(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })
		Expect(trial.tried).To(BeNumerically(">", 0))
		Expect(connection()).To(BeNil())
		before := issued()
		Expect(before).NotTo(BeEmpty())

		touched = nil
		for range 3 {
			drive.reconcileOnce()
		}
		Expect(touched).To(BeEmpty())
		Expect(issued()).To(Equal(before))

		By("issuing nothing else when it can be rolled out")
		rollOut()
		Expect(issued()).To(Equal(before))
		Expect(connection()).NotTo(BeNil())

		By("deleting what no pod mounts when the spec requests it no more")
		trial.response = response
		request(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: "main-0", URLs: []string{"https://main.example.com:2380"}}}
		})
		Expect(len(issued())).To(BeNumerically(">", len(before)))
		request(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.AdditionalAdvertisePeerURLs = nil })
		Expect(issued()).To(Equal(before))
	},
		Entry("is refused", isInvalid),
		Entry("cannot be tried", isBusy),
	)

	It("follows a rotation of the CA with its own certificate, which each member accepts at all times", func() {
		start(3)
		before := connection()["tls.crt"]
		request(func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/rotate-ca", "start")
		})
		Expect(k.Violations).To(BeEmpty())
		first := issuedFor("main-application")
		Expect(first).To(HaveLen(1))
		Expect(string(first[0].Data["tls.crt"])).NotTo(Equal(string(before)))
		Expect(string(connection()["tls.crt"])).To(Equal(string(first[0].Data["tls.crt"])))
		Expect(commonName(connection()["tls.crt"])).To(Equal("etcd-application"))

		request(func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/rotate-ca", "complete")
		})
		Expect(k.Violations).To(BeEmpty())
		Expect(issuedFor("main-application")).To(Equal(first), "it is of the new CA since the rotation was prepared")
	})

	It("does not exist for a cluster whose Secrets are being replaced by issued ones, before all members trust the issued CA", func() {
		k = kube.New(scheme)
		etcdDruidCluster(3)(k)
		adopt(k)
		startOperator(k, nil).run()
		observed := 0
		drive = startOperator(k, func(write kube.Write) {
			if write.Done && strings.HasSuffix(write.What, " Secret main-connection") {
				list := &corev1.PodList{}
				must(k.Client(nil).List(ctx, list))
				for _, pod := range list.Items {
					Expect(pod.Spec.Volumes).To(ContainElement(HaveField("VolumeSource.Secret", HaveField("SecretName", Or(HavePrefix("main-client-ca-bundle-"), HavePrefix("main-client-ca-combined-"))))))
				}
				observed++
			}
		})
		request(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.ClientUrlTLS, etcd.Spec.Etcd.PeerUrlTLS, etcd.Spec.Backup.TLS, etcd.Spec.Etcd.EnableTLS = nil, nil, nil, new(true)
		})
		Expect(observed).To(BeNumerically(">", 0), "%+v", k.EtcdObject().Status)
	})
})

// trialClient responds to dry runs of a StatefulSet with pods of another role.
type trialClient struct {
	client.Client
	// response is the error of a dry run. Nil: that of the API server.
	response error
	tried    int
}

// Create implements client.Client.
func (c *trialClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	options := client.CreateOptions{}
	options.ApplyOptions(opts)
	statefulSet, is := obj.(*appsv1.StatefulSet)
	if is && len(options.DryRun) > 0 && c.response != nil && statefulSet.Spec.Template.Labels["role"] == "other" {
		c.tried++
		return c.response
	}
	return c.Client.Create(ctx, obj, opts...)
}
