// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// rootPassword is the password of the user root of etcd.
const rootPassword = "password"

// EnableAuthentication makes etcd refuse all requests without a user.
func (l *WriteLog) EnableAuthentication(ctx context.Context) {
	GinkgoHelper()

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	call, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	_, err := client.UserAdd(call, "root", rootPassword)
	Expect(err).NotTo(HaveOccurred(), l.ns.State)
	_, err = client.UserGrantRole(call, "root", "root")
	Expect(err).NotTo(HaveOccurred(), l.ns.State)
	_, err = client.AuthEnable(call)
	Expect(err).NotTo(HaveOccurred(), l.ns.State)
}

// DisableAuthentication makes etcd accept requests without a user again.
func (l *WriteLog) DisableAuthentication(ctx context.Context) {
	GinkgoHelper()

	client := l.connectWith(ctx, l.ns.Pod(ctx, l.etcd), l.credentials(ctx), func(config *clientv3.Config) {
		config.Username, config.Password = "root", rootPassword
	})
	defer client.Close()

	call, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	_, err := client.AuthDisable(call)
	Expect(err).NotTo(HaveOccurred(), l.ns.State)
}
