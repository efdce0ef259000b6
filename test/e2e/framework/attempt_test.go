// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/connectivity"

	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// states are the states of a connection, one after another.
type states []connectivity.State

func (s *states) GetState() connectivity.State { return (*s)[0] }

func (s *states) WaitForStateChange(context.Context, connectivity.State) bool {
	*s = (*s)[1:]

	return len(*s) > 0
}

var _ = Describe("The row of a phase", func() {
	DescribeTable("has an attempt to connect", func(took time.Duration, err error, matcher OmegaMatcher) {
		Expect(framework.RecordAttempt("the connection", time.Now().Add(-took), err).Connections).To(matcher)
	},
		Entry("that failed at once", time.Duration(0), errors.New("refused"), ConsistOf(ContainSubstring("and failed: refused"))),
		Entry("that was slow", 2*time.Second, nil, ConsistOf(And(ContainSubstring("the connection took 2"), Not(ContainSubstring("failed"))))),
		Entry("but not one that was fast", time.Duration(0), nil, BeEmpty()),
	)

	It("has the attempts of gRPC that did not result in a connection", func() {
		stats := framework.RecordConnection(context.Background(), &states{
			connectivity.Ready, connectivity.Idle, connectivity.Connecting, connectivity.TransientFailure, connectivity.Connecting, connectivity.Ready, connectivity.Shutdown,
		})
		Expect(stats.Connections).To(ConsistOf(ContainSubstring("and failed: state TRANSIENT_FAILURE")))
	})

	It("has no more than five of them", func() {
		failing := states{connectivity.Ready}
		for range 7 {
			failing = append(failing, connectivity.Connecting, connectivity.TransientFailure)
		}
		Expect(framework.RecordConnection(context.Background(), &failing).Connections).To(HaveLen(5))
	})
})

var _ = Describe("A connection to a Service", func() {
	It("is established by another attempt if the first one gets no response", func(ctx context.Context) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)

		attempts := 0
		connection, err := framework.DialRepeatedly(ctx, listener.Addr().String(), func(ctx context.Context, network, address string) (net.Conn, error) {
			if attempts++; attempts == 1 {
				return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
			}

			return (&net.Dialer{}).DialContext(ctx, network, address)
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(connection.Close()).To(Succeed())
		Expect(attempts).To(Equal(2))
	})

	It("fails at once if it is refused", func(ctx context.Context) {
		attempts := 0
		_, err := framework.DialRepeatedly(ctx, "127.0.0.1:1", func(context.Context, string, string) (net.Conn, error) {
			attempts++

			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		})
		Expect(err).To(HaveOccurred())
		Expect(attempts).To(Equal(1))
	})
})
