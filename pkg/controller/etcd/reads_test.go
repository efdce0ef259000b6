// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// readers are the functions of this package that read objects or call the planner, with the reason. Every other decision belongs to
// pkg/target, pkg/planner or pkg/engine, and every other read to pkg/observer.
var readers = map[string]string{
	"reconcile":              "the object that is reconciled, and the queue",
	"requestsFor":            "the object that is reconciled, and the queue",
	"reportLoop":             "the object that is reconciled, and the queue",
	"isCreating":             "the object that is reconciled, and the queue",
	"deleteConnection":       "a deletion reads uncached, and has no engine",
	"deleteIssued":           "a deletion reads uncached, and has no engine",
	"deleteJobsIf":           "a deletion reads uncached, and has no engine",
	"deleteLeases":           "a deletion reads uncached, and has no engine",
	"deleteLeftovers":        "a deletion reads uncached, and has no engine",
	"deleteManagedResource":  "a deletion reads uncached, and has no engine",
	"deletePayloads":         "a deletion reads uncached, and has no engine",
	"deletePods":             "a deletion reads uncached, and has no engine",
	"deletionProceeds":       "a deletion reads uncached, and has no engine",
	"liveClaim":              "a deletion reads uncached, and has no engine",
	"liveStatefulSet":        "a deletion reads uncached, and has no engine",
	"releaseRetained":        "a deletion reads uncached, and has no engine",
	"saveData":               "a deletion reads uncached, and has no engine",
	"checkCurrent":           "a last check before a write that must not follow a stale cache",
	"checkDeletion":          "a last check before a write that must not follow a stale cache",
	"checkFirstMember":       "a last check before a write that must not follow a stale cache",
	"checkLeases":            "a last check before a write that must not follow a stale cache",
	"checkManagedResource":   "a last check before a write that must not follow a stale cache",
	"checkNewest":            "a last check before a write that must not follow a stale cache",
	"checkOrigin":            "a last check before a write that must not follow a stale cache",
	"checkOwnership":         "a last check before a write that must not follow a stale cache",
	"checkPods":              "a last check before a write that must not follow a stale cache",
	"showsRendering":         "a last check before a write that must not follow a stale cache",
	"Get":                    "the object that it writes",
	"List":                   "the requests of the secrets manager",
	"currentManagedResource": "the object that it writes",
	"changeVolume":           "the object that it writes",
	"deleteSnapshotLeases":   "the object that it writes",
	"ensureBundle":           "the object that it writes",
	"ensureLease":            "the object that it writes",
	"extendConnection":       "the object that it writes",
	"payloadExists":          "the object that it writes",
	"recordLeaseStore":       "the object that it writes",
	"recordRecreation":       "the object that it writes",
	"recreateStatefulSet":    "the object that it writes",
	"releasePods":            "the object that it writes",
	"writeLeaseHolder":       "the object that it writes",
	"compare":                "drift of rendered objects, which only repeats the rendering",
	"isMissing":              "drift of rendered objects, which only repeats the rendering",
	"storeMove":              "maintenance of snapshot Leases: the planner decides from the observation",
	"refillSnapshotLease":    "maintenance of snapshot Leases: the planner decides from the observation",
	"announceSizeOne":        "an event about the rendering: the planner decides from the observation",
}

var _ = Describe("The package", func() {
	It("reads and decides only where that is justified", func() {
		found := map[string]bool{}
		files, err := filepath.Glob("*.go")
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			Expect(err).NotTo(HaveOccurred())
			for _, declaration := range parsed.Decls {
				function, is := declaration.(*ast.FuncDecl)
				if is && readsOrDecides(function) {
					found[function.Name.Name] = true
				}
			}
		}
		var unjustified, superfluous []string
		for name := range found {
			if readers[name] == "" {
				unjustified = append(unjustified, name)
			}
		}
		for name := range readers {
			if !found[name] {
				superfluous = append(superfluous, name)
			}
		}
		slices.Sort(unjustified)
		Expect(unjustified).To(BeEmpty(), "move the read to pkg/observer and the decision to pkg/planner, or justify it above")
		Expect(superfluous).To(BeEmpty(), "remove them from the list above")
	})
})

// readsOrDecides is true for a function that calls Get or List of a client, or a function of the planner.
func readsOrDecides(function *ast.FuncDecl) bool {
	found := false
	ast.Inspect(function, func(node ast.Node) bool {
		call, is := node.(*ast.CallExpr)
		if !is {
			return true
		}
		selector, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return true
		}
		switch receiver := selector.X.(type) {
		case *ast.SelectorExpr: // r.Client.Get, r.Reader.List
			found = found || slices.Contains([]string{"Client", "Reader", "Cache"}, receiver.Sel.Name) && slices.Contains([]string{"Get", "List"}, selector.Sel.Name)
		case *ast.CallExpr: // r.cached().Get
			found = found || selector.Sel.Name == "Get" && len(call.Args) == 3
		case *ast.Ident:
			found = found || receiver.Name == "planner"
		}

		return true
	})

	return found
}
