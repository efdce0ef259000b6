// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// seedLabel begins the label of a spec that needs the local seed.
	seedLabel = "needs-seed: "
	// restoreLabel begins the label of a spec whose sidecar opens a database.
	restoreLabel = "needs-restore: "
)

// NeedsSeed declares that a spec needs the local seed. The reason completes the sentence "The spec ...". On another cluster the spec is skipped with this reason.
func NeedsSeed(reason string) Labels { return Label(seedLabel + reason) }

// NeedsRestore declares that the sidecar opens a database in a spec: it restores a snapshot, compacts snapshots, or validates the
// data after a crash. The reason completes the sentence "The spec ...". The spec is skipped if the sidecar cannot open a
// database of the version of etcd.
func NeedsRestore(reason string) Labels { return Label(restoreLabel + reason) }

// Capabilities are what the specs can use in this run.
type Capabilities struct {
	// Seed is true on the local seed.
	Seed bool
	// Restore is true if the sidecar can open a database of the version of etcd.
	Restore bool
}

// Default version of etcd in the specs, and the version for which the seed has no sidecar.
const (
	etcd34 = "3.4"
	etcd35 = "3.5"
)

// EtcdVersion returns the version of etcd for the Etcds of the specs, from the environment variable ETCD_VERSION: 3.4 or 3.5. The
// default is 3.4.
func EtcdVersion() string { return cmp.Or(os.Getenv("ETCD_VERSION"), etcd34) }

// IsEtcdVersionSet returns whether the user selected the version. If not, the specs do not set the field of the Etcd.
func IsEtcdVersionSet() bool { return os.Getenv("ETCD_VERSION") != "" }

// capabilitiesOf returns the capabilities for the kind of cluster and the version of etcd. The sidecar of the seed contains
// etcd 3.4. A sidecar that the user selected, and the published images of another cluster, match their version.
func capabilitiesOf(isSeed bool, version, nextSidecar string) (Capabilities, error) {
	switch version {
	case etcd34, etcd35:
		return Capabilities{Seed: isSeed, Restore: !isSeed || version == etcd34 || nextSidecar != ""}, nil
	default:
		return Capabilities{}, fmt.Errorf("ETCD_VERSION is %q; set it to %s or %s", version, etcd34, etcd35)
	}
}

// Missing returns why a spec with these labels cannot run. Empty means that it can run.
func (c Capabilities) Missing(labels []string) string {
	for _, label := range labels {
		if reason, found := strings.CutPrefix(label, seedLabel); found && !c.Seed {
			return "needs the local seed: the spec " + reason
		}

		if reason, found := strings.CutPrefix(label, restoreLabel); found && !c.Restore {
			return "needs SIDECAR_NEXT, since the sidecar of the local seed cannot open a database of etcd " + etcd35 + ": the spec " + reason
		}
	}

	return ""
}

// SkipUnlessAvailable skips the running spec if a capability that it declares is missing.
func (f *Framework) SkipUnlessAvailable() {
	if reason := f.Capabilities.Missing(CurrentSpecReport().Labels()); reason != "" {
		Skip(reason)
	}
}

// requireSeed fails if the running spec does not declare that it needs the seed. Functions that use the seed call it, also on the
// seed. A missing declaration is therefore found on the seed, and not first on another cluster.
func requireSeed() {
	GinkgoHelper()
	Expect(slices.ContainsFunc(CurrentSpecReport().Labels(), func(label string) bool { return strings.HasPrefix(label, seedLabel) })).
		To(BeTrue(), "the spec uses the local seed without the decorator framework.NeedsSeed")
}
