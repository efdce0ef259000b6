// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("A simulated change of the certificates", func() {
	defaults := state.Defaults{ImageSets: map[string]state.Images{"3.4": {EtcdWrapper: "v1", BackupRestore: "v1", Init: "v1"}, "3.5": {EtcdWrapper: "v2", BackupRestore: "v2", Init: "v2"}}}
	settle := func(c *simulator.Cluster) {
		GinkgoHelper()
		operator := simulator.NewOperator(c, target.Config{AutoReconcile: true, Defaults: defaults})
		reports := []string(nil)
		for range 200 {
			if result := operator.Reconcile(); result.State == druidv1alpha1.LastOperationStateSucceeded {
				return
			} else if len(reports) == 0 || reports[len(reports)-1] != result.Description {
				reports = append(reports, result.Description)
			}
			c.Tick()
		}
		Fail("it does not end:\n" + strings.Join(reports, "\n"))
	}

	It("from those of the user to issued ones has three stages", func() {
		etcd := newEtcd(3)
		etcd.Spec.Etcd.EnableTLS = nil
		fixture.WithClientTLS()(etcd)
		fixture.WithPeerTLS()(etcd)
		c, authority := simulator.New(etcd, now), fixture.NewAuthority("own", fixture.Validity{})
		leaf := authority.Leaf(fixture.Validity{}, "main-local", "main-client", "*.main-peer.demo.svc")
		for name, data := range map[string]map[string][]byte{
			"client-ca": {"ca.crt": authority.PEM()}, "client-server": leaf, "client-client": leaf, "peer-ca": {"ca.crt": authority.PEM()}, "peer-server": leaf,
		} {
			c.Objects.Secrets = append(c.Objects.Secrets, etcdcluster.Secret{Name: name, Exists: true, Keys: slices.Sorted(maps.Keys(data)), Certificates: etcdcluster.CertificatesIn(data)})
		}
		settle(c)
		Expect(c.Objects.Pods).To(HaveEach(HaveField("TLS.PeerCA", "peer-ca")))

		etcd.Generation++
		etcd.Spec.Etcd.EnableTLS, etcd.Spec.Etcd.ClientUrlTLS, etcd.Spec.Etcd.PeerUrlTLS = new(true), nil, nil
		settle(c)
		Expect(c.Objects.Pods).To(HaveEach(HaveField("TLS.PeerCA", "main-peer-ca")))
		Expect(c.Incidents).To(BeEmpty())
	})
})
