// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package applicable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/payload"
	"github.com/gardener/gardener-extension-etcd-druid/test/crdschema"
	"github.com/gardener/gardener-extension-etcd-druid/test/gardenletetcds"
	"github.com/gardener/gardener-extension-etcd-druid/test/randomspec"
)

// outcome is what becomes of an object.
type outcome string

const (
	accepted          outcome = "accepted"
	rejected          outcome = "rejected by the schema"
	rejectedByRule    outcome = "rejected by the operator"
	rejectedByDryRun  outcome = "rejected by a dry run"
	neitherOfThem     outcome = "neither accepted nor rejected"
	leastShare                = 0.6
	maxReportedFaults         = 10
)

// named matches a message with the field that it is about.
var named = regexp.MustCompile(`\b(spec|metadata)(\.\w|\[)`)

// results are the outcomes of many objects.
type results struct {
	outcomes map[outcome]int
	reasons  map[string]int
	faults   []string
}

func (r *results) add(object map[string]any, is outcome, message string) {
	if r.outcomes == nil {
		r.outcomes, r.reasons = map[outcome]int{}, map[string]int{}
	}
	r.outcomes[is]++
	switch {
	case is == accepted:
		return
	case is == neitherOfThem, !named.MatchString(message):
		encoded, _ := json.Marshal(object)
		r.faults = append(r.faults, fmt.Sprintf("%s: %s\n%s", is, message, encoded))
	}
	r.reasons[string(is)+": "+firstLine(message)]++
}

func firstLine(message string) string {
	if len(message) > 300 {
		message = message[:300]
	}

	return strings.ReplaceAll(message, "\n", " ")
}

func (r *results) report(what string, seed int64, total int, cpu time.Duration) {
	GinkgoHelper()
	for _, reason := range slices.Sorted(maps.Keys(r.reasons)) {
		GinkgoWriter.Printf("%4d %s\n", r.reasons[reason], reason)
	}
	share := float64(r.outcomes[accepted]) / float64(total)
	AddReportEntry(what, fmt.Sprintf("seed %d: %d %s, %.0f %% accepted, in %s of CPU time, %v", seed, total, what, 100*share, cpu, r.outcomes), ReportEntryVisibilityAlways)
	Expect(r.faults[:min(len(r.faults), maxReportedFaults)]).To(BeEmpty(), "%d faults", len(r.faults))
	Expect(share).To(BeNumerically(">=", leastShare), "a test whose specs are mostly rejected shows little")
}

var _ = Describe("What is accepted", func() {
	DescribeTable("can be applied, whatever the spec is", func(ctx SpecContext, what string, kind randomspec.Kind, decide func(encoded []byte) (decision, error)) {
		objects, missing, err := kind.Generate(rand.New(rand.NewSource(seed())), count())
		Expect(err).NotTo(HaveOccurred())
		Expect(missing).To(BeEmpty(), "points of the schema that no spec reaches")
		all, start := &results{}, cpuTime()
		for _, object := range objects {
			is, message := outcomeOf(ctx, object, decide)
			all.add(object, is, message)
		}
		all.report(what, seed(), len(objects), (cpuTime() - start).Round(time.Millisecond))
	},
		Entry("of an Etcd", "Etcds", randomspec.Etcd, decideEtcd),
		Entry("of a task that copies snapshots", "EtcdCopyBackupsTasks", randomspec.CopyBackupsTask, func(encoded []byte) (decision, error) {
			task := &druidv1alpha1.EtcdCopyBackupsTask{}
			if err := json.Unmarshal(encoded, task); err != nil {
				return decision{}, err
			}

			return decideCopy(task), nil
		}),
		Entry("of a task for an Etcd", "EtcdOpsTasks", randomspec.OpsTask, func(encoded []byte) (decision, error) {
			task := &druidv1alpha1.EtcdOpsTask{}
			if err := json.Unmarshal(encoded, task); err != nil {
				return decision{}, err
			}

			if errs := validation.ValidateOpsTask(task); len(errs) > 0 {
				return decision{refusal: errs.ToAggregate().Error()}, nil
			}

			return decision{}, nil // its Jobs have the names and the settings of the Etcd
		}),
	)

	It("can be applied: the Etcds of gardenlet", func(ctx SpecContext) {
		for _, etcd := range gardenletetcds.All() {
			encoded, err := etcd.JSON()
			Expect(err).NotTo(HaveOccurred())
			expectAccepted(ctx, etcd.Name, encoded)
		}
	})

	It("can be applied: the examples", func(ctx SpecContext) {
		files, err := filepath.Glob("../../../example/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		etcds := 0
		for _, file := range files {
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
				if bytes.Contains(document, []byte("\nkind: Etcd\n")) {
					expectAccepted(ctx, file, document)
					etcds++
				}
			}
		}
		Expect(etcds).To(BeNumerically(">=", 5))
	})
})

// expectAccepted expects that a manifest of an Etcd is accepted.
func expectAccepted(ctx context.Context, what string, manifest []byte) {
	GinkgoHelper()
	object, err := crdschema.Decode(manifest)
	Expect(err).NotTo(HaveOccurred(), what)
	metadata := object["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	if metadata["namespace"] == nil {
		metadata["namespace"] = "default"
	}
	ensureNamespace(ctx, metadata["namespace"].(string))
	is, message := outcomeOf(ctx, object, decideEtcd)
	Expect(is).To(Equal(accepted), "%s: %s", what, message)
}

// decideEtcd decides about the JSON of an Etcd.
func decideEtcd(encoded []byte) (decision, error) {
	etcd := &druidv1alpha1.Etcd{}
	if err := json.Unmarshal(encoded, etcd); err != nil {
		return decision{}, err
	}

	return decide(etcd), nil
}

// outcomeOf creates an object in a dry run, and lets the operator decide about what the API server would store. It then applies what the operator
// renders in a dry run.
func outcomeOf(ctx context.Context, object map[string]any, decide func(encoded []byte) (decision, error)) (outcome, string) {
	stored := (&unstructured.Unstructured{Object: object}).DeepCopy()
	if err := api.Create(ctx, stored, client.DryRunAll); isRejection(err) {
		return rejected, err.Error()
	} else if err != nil {
		return neitherOfThem, "creating the object: " + err.Error()
	}
	encoded, err := stored.MarshalJSON()
	if err != nil {
		return neitherOfThem, err.Error()
	}
	decided, err := decide(encoded)
	switch {
	case err != nil:
		return neitherOfThem, "the operator cannot decode the object: " + err.Error()
	case decided.refusal != "":
		return rejectedByRule, decided.refusal
	case decided.waiting != "":
		return neitherOfThem, "the operator waits: " + decided.waiting
	}
	for _, object := range decided.objects {
		if err := api.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll); isRejection(err) && decided.hasDryRun(object) {
			return rejectedByDryRun, err.Error()
		}
	}
	applied, err := decoded(decided.objects)
	if number := (*payload.NumberError)(nil); errors.As(err, &number) {
		return rejectedByRule, err.Error()
	} else if err != nil {
		return neitherOfThem, "gardener-resource-manager cannot decode the objects: " + err.Error()
	}
	for _, object := range applied {
		if err := api.Create(ctx, object, client.DryRunAll); err != nil {
			return neitherOfThem, fmt.Sprintf("the API server rejects the %s: %s", object.GetKind(), err)
		}
	}

	return accepted, ""
}

// isRejection is true for an error that the author of the object must resolve.
func isRejection(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }

// cpuTime returns the CPU time of this process until now. The API server is another process.
func cpuTime() time.Duration {
	GinkgoHelper()
	usage := syscall.Rusage{}
	Expect(syscall.Getrusage(syscall.RUSAGE_SELF, &usage)).To(Succeed())

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
