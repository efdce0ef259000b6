// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient_test

import (
	"context"
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
)

var _ = DescribeTable("Describe returns no text of the process that responds", func(err error, class string) {
	Expect(etcdclient.Describe(fmt.Errorf("endpoint status: %w", err))).To(Equal(class))
},
	Entry("in a name of its certificate", status.Error(codes.Unavailable, "authentication handshake failed: x509: certificate is valid for a.secret, not main-local"), "the certificate is for another name"),
	Entry("in its issuer", status.Error(codes.Unavailable, `authentication handshake failed: x509: certificate signed by unknown authority (candidate "secret")`), "the certificate is not trusted"),
	Entry("in the body of a web page", status.Error(codes.Unknown, `unexpected HTTP status code received from server: 404; body: "secret"`), "no etcd responds"),
	Entry("in a response of a DNS server", status.Error(codes.Unavailable, "dial tcp: lookup secret on 10.0.0.1:53: no such host"), "host name not found"),
	Entry("in an address", status.Error(codes.Unavailable, "dial tcp 10.0.0.1:2379: connect: connection refused"), "connection refused"),
	Entry("in another error", status.Error(codes.Internal, "secret"), "the response has the code Internal"),
	Entry("in an error without a code", errors.New("secret"), "an unexpected response"),
	Entry("but the text of etcd", rpctypes.ErrGRPCNoLeader, "etcdserver: no leader"),
	Entry("after a timeout", context.DeadlineExceeded, "timeout"),
)
