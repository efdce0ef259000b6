// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Names renames the namespaces of tests. The names have the form of Gardener, and do not depend on the random parts of the old names.
type Names struct {
	shoots map[string]string
}

var (
	projects = []string{"core", "retail", "iot", "lab", "web", "pay", "maps", "ml"}
	clusters = []string{"prod-eu", "prod-us", "canary", "staging", "dev", "qa", "prod-ap", "perf", "edge", "demo", "batch", "prod-sa"}
)

// testNamespace matches the namespaces of end-to-end tests and of the example of the local seed.
var testNamespace = regexp.MustCompile(`^(e2e-|etcd-example$)`)

// listHeader matches the header of a list, and its first column.
var listHeader = regexp.MustCompile(`^(NAMESPACE +)NAME\b`)

// assign gives a name to each namespace with a scraped member, in the order of the first scrapes.
func (n *Names) assign(targets []target) {
	first := map[string]int64{}

	for _, target := range targets {
		if before, found := first[target.namespace]; !found || target.scrapes[0].slot < before {
			first[target.namespace] = target.scrapes[0].slot
		}
	}

	for _, namespace := range slices.SortedFunc(maps.Keys(first), func(a, b string) int {
		return cmp.Or(cmp.Compare(first[a], first[b]), strings.Compare(a, b))
	}) {
		n.Namespace(namespace)
	}
}

// Namespace returns the new name of a namespace. Other namespaces keep their names.
func (n *Names) Namespace(old string) string {
	if !testNamespace.MatchString(old) {
		return old
	}

	if n.shoots == nil {
		n.shoots = map[string]string{}
	}

	if n.shoots[old] == "" {
		i := len(n.shoots)
		n.shoots[old] = fmt.Sprintf("shoot--%s--%s", projects[i%len(projects)], clusters[i/len(projects)%len(clusters)])
	}

	return n.shoots[old]
}

// Text renames the namespaces in the output of a command. In a list, the first column keeps its width.
func (n *Names) Text(text string) string {
	lines := strings.Split(text, "\n")

	if header := listHeader.FindStringSubmatch(lines[0]); header != nil {
		width := len(header[1])

		for i, line := range lines {
			if namespace, _, _ := strings.Cut(line, " "); len(line) > width && n.shoots[namespace] != "" {
				lines[i] = fmt.Sprintf("%-*s%s", width, n.shoots[namespace], line[width:])
			}
		}
	}

	text = strings.Join(lines, "\n")
	// The longest name first: a name can be the beginning of another one.
	for _, old := range slices.SortedFunc(maps.Keys(n.shoots), func(a, b string) int { return len(b) - len(a) }) {
		text = strings.ReplaceAll(text, old, n.shoots[old])
	}

	return text
}
