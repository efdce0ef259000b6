// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package e2e_test contains the end-to-end tests on the local seed or another cluster. `make test-e2e` runs them in parallel, each in its own namespace.
// Tests that restart the operator or disturb nodes are Serial: no other test runs at the same time. Tests that limit gaps to a second are quiet:
// they run after all others, three at a time.
//
// The package contains no tables of cases, which belong in unit tests, and no test that could also use a fake.
package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gardener/gardener/pkg/logger"
	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// specTimeout bounds most of the specs.
const specTimeout = 10 * time.Minute

// quiet is the label of the specs that run in a second step, after all others, in fewer processes. Serial specs with this label run last.
var quiet = Label("quiet")

// gate is the label of the scenarios that `make test` runs. make test-all runs all others too.
var gate = Label("gate")

// seed is the cluster on which all tests run: the local seed, or the cluster of KUBECONFIG.
var seed *framework.Framework

// auditWindow is the part of the audit log since the start of the suite, and operatorUser is the user of the operator there. Empty: there is no audit log.
var (
	auditWindow  framework.AuditWindow
	operatorUser string
)

// maxConflicts is the largest share of conflicts in the patches of the status of Etcds. minPatches is the smallest number of patches that show it.
const (
	maxConflicts = 0.02
	minPatches   = 200
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	logf.SetLogger(logger.MustNewZapLogger(logger.InfoLevel, logger.FormatText, zap.WriteTo(GinkgoWriter)))
	format.MaxLength, format.MaxDepth = 8000, 5
	RunSpecs(t, "End-to-End Suite")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error

	seed, err = framework.Connect(ctx)
	Expect(err).NotTo(HaveOccurred())

	if seed.Capabilities.Seed {
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		operatorUser, auditWindow = operator.User(ctx), seed.OpenSuiteAuditWindow()
	}
})

var _ = BeforeEach(func() { seed.SkipUnlessAvailable() })

var _ = ReportAfterSuite("reports the duration of each spec", func(report Report) {
	specs := slices.DeleteFunc(report.SpecReports, func(spec types.SpecReport) bool {
		return !spec.LeafNodeType.Is(types.NodeTypeIt) || spec.RunTime == 0
	})
	slices.SortFunc(specs, func(a, b types.SpecReport) int { return a.StartTime.Compare(b.StartTime) })

	var table strings.Builder
	for _, spec := range specs {
		fmt.Fprintf(&table, "%8s after %8s  %-8s %s\n", spec.RunTime.Round(time.Second), spec.StartTime.Sub(report.StartTime).Round(time.Second), spec.State, spec.FullText())
	}

	if phases := framework.PhaseTable(report.SpecReports); phases != "" {
		fmt.Printf("Longest times between two successful operations of the workloads:\n%s", phases)
	}

	fmt.Printf("Duration and start of each spec:\n%s%8s all\n", table.String(), report.RunTime.Round(time.Second))
})

var _ = ReportAfterSuite("few patches of the status of Etcds conflict", func(Report) {
	if operatorUser == "" {
		return
	}

	patches, conflicts, err := auditWindow.Conflicts(operatorUser)
	fmt.Printf("%d of %d patches of the status of Etcds conflicted\n", conflicts, patches)
	Expect(err).NotTo(HaveOccurred())

	if patches >= minPatches {
		Expect(float64(conflicts) / float64(patches)).To(BeNumerically("<", maxConflicts))
	}
})

// withLocalStore configures a Local store in the directory of the namespace, and a delta snapshot every ten seconds.
func withLocalStore(ns *framework.TestNamespace) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
			Provider:  new(druidv1alpha1.StorageProvider("Local")),
			Container: &ns.Name,
			Prefix:    etcd.Name,
		}
		etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: 10 * time.Second}
		etcd.Spec.Backup.FullSnapshotSchedule = new(notDuringTests())
	}
}

// notDuringTests returns a cron schedule that is due once a day, and not in the next hours. Without a schedule the sidecar takes a full snapshot
// every hour. A test that runs at that time finds a snapshot that it has not requested.
func notDuringTests() string {
	return fmt.Sprintf("0 %d * * *", time.Now().UTC().Add(12*time.Hour).Hour())
}
