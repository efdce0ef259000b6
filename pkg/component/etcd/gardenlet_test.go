// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bytes"
	"encoding/json"
	"sync"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/gardenletetcds"
)

// gardenletCases are the Etcds that gardenlet creates, as its own code creates them.
func gardenletCases() []goldenCase {
	var cases []goldenCase
	for _, written := range gardenletetcds.All() {
		cases = append(cases, goldenCase{name: written.Name, base: written.Base, input: gardenletInput(written), root: written.RunsAsRoot})
	}

	return cases
}

// gardenletInput is the input of the Etcd that gardenlet writes, read back from the wire. The operator runs as an
// extension, and sets the labels of Gardener's network policies accordingly.
func gardenletInput(written gardenletetcds.Etcd) func() etcd.Input {
	wire := sync.OnceValues(written.JSON)

	return func() etcd.Input {
		content, err := wire()
		Expect(err).NotTo(HaveOccurred())
		obj := &druidv1alpha1.Etcd{}
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.DisallowUnknownFields()
		Expect(decoder.Decode(obj)).To(Succeed())
		obj.UID = fixture.Etcd().UID

		in := inputFor(obj)
		in.Defaults.NamespaceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{
			"gardener.cloud/role":                             "extension",
			"controllerregistration.core.gardener.cloud/name": "gardener-extension-etcd-druid",
		}}}

		return in
	}
}
