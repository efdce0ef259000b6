// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const (
	keyPrefix = "write/"
	// requestTimeout bounds one request to etcd. attemptTimeout bounds a request that a test expects to fail.
	requestTimeout = 10 * time.Second
	attemptTimeout = 3 * time.Second
)

// WriteLog records every write that etcd acknowledged. The test can verify later that no write is lost.
type WriteLog struct {
	// TLS is the client configuration. Nil means the configuration of the connection Secret, or plaintext if there is
	// no such Secret.
	TLS *tls.Config
	// Revision is the revision of the last acknowledged write.
	Revision int64

	ns      *TestNamespace
	etcd    *druidv1alpha1.Etcd
	written map[string]string
}

// NewWriteLog returns an empty log for the Etcd.
func (ns *TestNamespace) NewWriteLog(etcd *druidv1alpha1.Etcd) *WriteLog {
	return &WriteLog{ns: ns, etcd: etcd, written: map[string]string{}}
}

// Write writes count new keys and expects that etcd acknowledges each.
func (l *WriteLog) Write(ctx context.Context, count int) {
	GinkgoHelper()

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	for range count {
		key := fmt.Sprintf("%s%06d", keyPrefix, len(l.written))
		value := fmt.Sprintf("%s at %s", key, time.Now().Format(time.RFC3339Nano))

		response, err := put(ctx, client, key, value)
		Expect(err).NotTo(HaveOccurred(), l.ns.State)

		l.written[key], l.Revision = value, response.Header.Revision
	}
}

// WriteUntilRejected writes new keys one after the other until etcd acknowledges no write for five seconds. It returns the error of the first
// write after the last acknowledged one.
func (l *WriteLog) WriteUntilRejected(ctx context.Context) error {
	GinkgoHelper()

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	var rejected error
	for acknowledged := time.Now(); time.Since(acknowledged) < 5*time.Second && ctx.Err() == nil; {
		key := fmt.Sprintf("%s%06d", keyPrefix, len(l.written))
		call, cancel := context.WithTimeout(ctx, attemptTimeout)
		response, err := client.Put(call, key, key)
		cancel()
		if err != nil {
			if rejected == nil {
				rejected = err
			}

			continue
		}
		l.written[key], l.Revision = key, response.Header.Revision
		acknowledged, rejected = time.Now(), nil
	}

	return rejected
}

// WriteMany writes count new keys with values of 512 bytes, many of them in parallel, and expects that etcd
// acknowledges each.
func (l *WriteLog) WriteMany(ctx context.Context, count int) {
	GinkgoHelper()
	l.WriteManyTo(ctx, l.ns.Pod(ctx, l.etcd), count)
}

// WriteManyTo is WriteMany through the member in a pod.
func (l *WriteLog) WriteManyTo(ctx context.Context, pod *corev1.Pod, count int) {
	GinkgoHelper()

	const writers = 16

	client := l.connectTo(ctx, pod, l.credentials(ctx))
	defer client.Close()

	var (
		lock   sync.Mutex
		group  errgroup.Group
		offset = len(l.written)
	)

	for writer := range writers {
		group.Go(func() error {
			for i := writer; i < count; i += writers {
				key := fmt.Sprintf("%s%06d", keyPrefix, offset+i)
				value := fmt.Sprintf("%s at %s%s", key, time.Now().Format(time.RFC3339Nano), strings.Repeat(".", 460))

				response, err := put(ctx, client, key, value)
				if err != nil {
					return err
				}

				lock.Lock()
				l.written[key], l.Revision = value, max(l.Revision, response.Header.Revision)
				lock.Unlock()
			}

			return nil
		})
	}

	Expect(group.Wait()).To(Succeed(), l.ns.State)
}

// ExpectComplete expects that etcd has every acknowledged key with its value, and no other key of the test.
func (l *WriteLog) ExpectComplete(ctx context.Context) {
	GinkgoHelper()
	Expect(l.Read(ctx)).To(Equal(l.written))
}

// ExpectContained expects that etcd has these keys with their values. Further keys are allowed.
func (l *WriteLog) ExpectContained(ctx context.Context, written map[string]string) {
	GinkgoHelper()

	found := l.Read(ctx)
	maps.DeleteFunc(found, func(key, _ string) bool { _, known := written[key]; return !known })
	Expect(found).To(Equal(written))
}

// Written returns a copy of the acknowledged keys and values.
func (l *WriteLog) Written() map[string]string { return maps.Clone(l.written) }

// Read returns all keys of the test and their values. The read is linearizable.
func (l *WriteLog) Read(ctx context.Context) map[string]string {
	GinkgoHelper()

	return l.readPrefix(ctx, keyPrefix)
}

// EventuallyRead is Read for a cluster whose first member may restart meanwhile.
func (l *WriteLog) EventuallyRead(ctx context.Context) (found map[string]string) {
	GinkgoHelper()

	config := l.credentials(ctx)
	Eventually(func() error {
		pod, exists := l.ns.FindPod(ctx, l.etcd)
		if !exists {
			return errors.New("the pod of the first member does not exist")
		}
		read, err := l.readFrom(ctx, pod, config, keyPrefix)
		found = read

		return err
	}).WithContext(ctx).WithTimeout(ReconcileTimeout).WithPolling(PollInterval).Should(Succeed(), l.ns.State)

	return found
}

func (l *WriteLog) readPrefix(ctx context.Context, prefix string) map[string]string {
	GinkgoHelper()

	found, err := l.readFrom(ctx, l.ns.Pod(ctx, l.etcd), l.credentials(ctx), prefix)
	Expect(err).NotTo(HaveOccurred(), l.ns.State)

	return found
}

// readFrom reads from a pod with this client configuration.
func (l *WriteLog) readFrom(ctx context.Context, pod *corev1.Pod, config *tls.Config, prefix string) (map[string]string, error) {
	GinkgoHelper()

	client := l.connectTo(ctx, pod, config)
	defer client.Close()

	call, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	response, err := client.Get(call, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}

	found := map[string]string{}
	for _, kv := range response.Kvs {
		found[string(kv.Key)] = string(kv.Value)
	}

	return found, nil
}

// TryWrite writes one key that the log does not record, with this client configuration (nil: plaintext). It does not
// retry, and returns the error.
func (l *WriteLog) TryWrite(ctx context.Context, config *tls.Config) error {
	GinkgoHelper()

	client := l.connect(ctx, config)
	defer client.Close()

	call, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()

	_, err := client.Put(call, "attempt", "1")

	return err
}

// credentials returns TLS, or else the configuration of the connection Secret, or else nil.
func (l *WriteLog) credentials(ctx context.Context) *tls.Config {
	GinkgoHelper()

	if l.TLS != nil {
		return l.TLS
	}

	config, err := l.ns.Connection(ctx, l.etcd)
	Expect(err).NotTo(HaveOccurred())

	return config
}

// TryWriteFor writes one key that the log does not record to the pod, with this client configuration. It retries until
// the duration has passed. The error contains the last one before that.
func (l *WriteLog) TryWriteFor(ctx context.Context, pod *corev1.Pod, config *tls.Config, duration time.Duration) error {
	client := l.connectTo(ctx, pod, config)
	defer client.Close()

	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()

	var last error
	for {
		_, err := client.Put(ctx, "attempt", time.Now().String())
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(err, last)
		}
		last = err
	}
}

// connect connects to the pod of the first member. The address of the pod changes when the pod is replaced.
func (l *WriteLog) connect(ctx context.Context, config *tls.Config) *clientv3.Client {
	GinkgoHelper()

	return l.connectTo(ctx, l.ns.Pod(ctx, l.etcd), config)
}

// connectTo connects to a pod with a server name that is in the member's certificate. It opens no connection
// before the first request.
func (l *WriteLog) connectTo(ctx context.Context, pod *corev1.Pod, config *tls.Config) *clientv3.Client {
	GinkgoHelper()

	return l.connectWith(ctx, pod, config, func(*clientv3.Config) {})
}

// connectWith is connectTo with a changed configuration. With a user, it authenticates before it returns.
func (l *WriteLog) connectWith(ctx context.Context, pod *corev1.Pod, config *tls.Config, change func(*clientv3.Config)) *clientv3.Client {
	GinkgoHelper()

	scheme := "http://"
	if config != nil {
		scheme = "https://"
	}

	settings := clientv3.Config{
		Context:   ctx,
		Endpoints: []string{scheme + l.etcd.Name + "-client:2379"},
		TLS:       config,
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return l.ns.dialPod(ctx, pod, "2379")
		})},
	}
	change(&settings)

	client, err := clientv3.New(settings)
	Expect(err).NotTo(HaveOccurred())

	return client
}

// Members returns the member list of a linearizable read. The header contains the cluster ID.
func (l *WriteLog) Members(ctx context.Context) (*clientv3.MemberListResponse, error) {
	GinkgoHelper()

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	call, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	return client.MemberList(call)
}
