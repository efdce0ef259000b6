// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stub_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"time"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/stub"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
)

const (
	loopback   = "127.0.0.1"
	serverName = "main-local"
)

// pod returns a running pod of an Etcd with a store. With TLS, it has the certificate in the Secret server.
func pod(withTLS bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-0", Labels: map[string]string{
			"app.kubernetes.io/component": "etcd-statefulset", "app.kubernetes.io/part-of": "main",
		}},
		Spec:   corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Args: []string{"--full-snapshot-lease-name=main-full-snap"}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: loopback},
	}
	if withTLS {
		for _, volume := range []string{"etcd-server-tls", "etcd-peer-server-tls"} {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "server"}}})
		}
	}

	return p
}

func lease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

var _ = Describe("The stub", func() {
	var (
		ctx  context.Context
		c    client.Client
		s    *stub.Stub
		ca   []byte
		pool *etcdclient.Pool
	)

	BeforeEach(func() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.Background())
		DeferCleanup(cancel)
		authority, err := (&secretsutils.CertificateSecretConfig{Name: "ca", CommonName: "ca", CertType: secretsutils.CACert}).GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		ca = authority.CertificatePEM
		server, err := (&secretsutils.CertificateSecretConfig{
			Name: "server", CommonName: "server", DNSNames: []string{serverName}, CertType: secretsutils.ServerCert, SigningCA: authority,
		}).GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		c = fakeclient.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "server"}, Data: map[string][]byte{"tls.crt": server.CertificatePEM, "tls.key": server.PrivateKeyPEM}},
			lease("main-0"), lease("main-full-snap"), lease("main-delta-snap"),
		).Build()
		s = stub.New(c, nil, false, logr.Discard())
		pool = etcdclient.NewPool(time.Second, clock.RealClock{})
		DeferCleanup(pool.Close)
	})

	connect := func(withTLS bool) etcdclient.Client {
		GinkgoHelper()
		target := etcdclient.Target{Address: s.Serve(ctx), ServerName: serverName}
		if withTLS {
			target.Credentials = &etcdclient.Credentials{Version: "1", Load: func(context.Context) (etcdclient.TLS, error) { return etcdclient.TLS{CA: ca}, nil }}
		}
		connected, err := pool.Connect(ctx, target)
		Expect(err).NotTo(HaveOccurred())

		return connected
	}

	DescribeTable("serves the calls of the operator",
		func(withTLS bool, scheme string) {
			s = stub.New(c, nil, withTLS, logr.Discard())
			s.SetPod(pod(withTLS))
			connected := connect(withTLS)

			status, alarms, err := connected.Status(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(alarms).To(BeEmpty())
			Expect(status.Healthy).To(BeTrue())
			Expect(status.LeaderID).To(Equal(status.MemberID))

			members, err := connected.MemberList(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(members).To(ConsistOf(And(HaveField("ID", status.MemberID), HaveField("Name", "main-0"), HaveField("PeerURLs", HaveExactElements(scheme+"://main-0.main-peer.ns.svc:2380")))))

			Expect(connected.Revision(ctx)).To(BeNumerically(">", 0))
			header, err := connected.Read(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(header.MemberID).To(Equal(status.MemberID))
			Expect(connected.Health(ctx)).To(Succeed())
		},
		Entry("without TLS", false, "http"),
		Entry("with the certificate of the pod", true, "https"),
	)

	It("resumes the TLS sessions of a client until the pod restarts, as etcd does", func() {
		s = stub.New(c, nil, true, logr.Discard())
		address := s.Serve(ctx)
		roots := x509.NewCertPool()
		Expect(roots.AppendCertsFromPEM(ca)).To(BeTrue())
		caller := http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: serverName, ClientSessionCache: tls.NewLRUClientSessionCache(1)},
		}}
		isResumed := func() bool {
			GinkgoHelper()
			response, err := caller.Get("https://" + address + "/health")
			Expect(err).NotTo(HaveOccurred())
			_, err = io.Copy(io.Discard, response.Body) // the ticket follows the handshake
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())

			return response.TLS.DidResume
		}

		s.SetPod(pod(true))
		Expect(isResumed()).To(BeFalse())
		Expect(isResumed()).To(BeTrue())
		stopped := pod(true)
		stopped.Status.Phase = corev1.PodFailed
		s.SetPod(stopped)
		s.SetPod(pod(true))
		Expect(isResumed()).To(BeFalse())
		Expect(isResumed()).To(BeTrue())
	})

	It("accepts a connection before it knows the pod", func() {
		connected := connect(false)
		result := make(chan error, 1)
		go func() {
			_, _, err := connected.Status(ctx)
			result <- err
		}()
		Consistently(result, 100*time.Millisecond).ShouldNot(Receive())
		s.SetPod(pod(false))
		Eventually(result).Should(Receive(Not(HaveOccurred())))
	})

	It("does not respond for members on a lost node, also on open connections", func() {
		s.SetPod(pod(false))
		connected := connect(false)
		_, _, err := connected.Status(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Lose("node-1")).To(ConsistOf(client.ObjectKey{Namespace: "ns", Name: "main"}))
		_, _, err = connected.Status(ctx)
		Expect(err).To(MatchError(etcdclient.ErrUnreachable))
	})

	It("responds for the next pod of a member, and no longer for the last one", func() {
		s.SetPod(pod(false))
		connected := connect(false)
		before, _, err := connected.Status(ctx)
		Expect(err).NotTo(HaveOccurred())
		stopped := pod(false)
		stopped.DeletionTimestamp = new(metav1.Now())
		s.SetPod(stopped)
		_, _, err = connected.Status(ctx)
		Expect(err).To(MatchError(etcdclient.ErrUnreachable))
		Expect(connected.Health(ctx)).NotTo(Succeed())
		s.SetPod(pod(false))
		after, _, err := connected.Status(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.MemberID).To(Equal(before.MemberID))
		Expect(after.Healthy).To(BeTrue())
	})

	It("advances the revisions, and keeps them afterwards", func() {
		s.SetPod(pod(false))
		connected := connect(false)
		before, err := connected.Revision(ctx)
		Expect(err).NotTo(HaveOccurred())
		s.AdvanceRevisions(1000)
		Eventually(func() (int64, error) { return connected.Revision(ctx) }).Should(BeNumerically(">", before))
		s.AdvanceRevisions(0)
		after, err := connected.Revision(ctx)
		Expect(err).NotTo(HaveOccurred())
		Consistently(func() (int64, error) { return connected.Revision(ctx) }, 100*time.Millisecond).Should(Equal(after))
	})

	It("renews the Leases of the members that run", func() {
		go s.RenewLeases(ctx)
		s.SetPod(pod(true))
		holder := func(name string) func() string {
			return func() string {
				object := lease(name)
				if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil || object.Spec.HolderIdentity == nil {
					return ""
				}

				return *object.Spec.HolderIdentity + object.Annotations["member.etcd.gardener.cloud/tls-enabled"]
			}
		}
		Eventually(holder("main-0")).Should(MatchRegexp(`^[0-9a-f]+:[0-9a-f]+:Leadertrue$`))
		Eventually(holder("main-full-snap")).Should(Equal("1000"))
	})

	It("renews the Lease of the delta snapshots in each period, also without new revisions", func() {
		s.SetPod(pod(false))
		now := time.Now()
		Expect(s.RenewLeasesAt(ctx, now, now.Add(stub.DeltaPeriod))).To(Succeed())
		recorded := lease("main-delta-snap")
		Expect(c.Get(ctx, client.ObjectKeyFromObject(recorded), recorded)).To(Succeed())
		Expect(recorded.Spec.HolderIdentity).To(HaveValue(Equal("1000")))
	})
})
