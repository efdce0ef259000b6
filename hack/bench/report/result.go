// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package report defines the result of a measurement, and turns results into a Markdown page.
//
// What may not live here: files, processes and clusters.
package report

import (
	"slices"
	"strings"
)

// OperatorClient is the name of the operator among the clients and the processes.
const OperatorClient = "operator"

// Result is what one run measured with one number of Etcds. It is stored as JSON.
type Result struct {
	// Fleet names the kind of Etcds, for example plaintext.
	Fleet string `json:"fleet"`
	// Etcds is the number of Etcds.
	Etcds int `json:"etcds"`
	// Commit is the commit of the operator.
	Commit string `json:"commit,omitempty"`
	// Machine describes the machine.
	Machine string `json:"machine,omitempty"`
	// Phases are the parts of the run, in their order.
	Phases []Phase `json:"phases"`
}

// Phase is one part of a run.
type Phase struct {
	// Name is a short name, unique in a run.
	Name string `json:"name"`
	// Seconds is the duration.
	Seconds float64 `json:"seconds"`
	// Durations are the times that the phase measured.
	Durations []Duration `json:"durations,omitempty"`
	// Requests are the requests that the API server completed.
	Requests []Requests `json:"requests,omitempty"`
	// CPU is the CPU time of each process in user and kernel mode, in seconds.
	CPU map[string]float64 `json:"cpu,omitempty"`
	// Operator is the state of the operator at the end.
	Operator Operator `json:"operator"`
}

// Duration is a time that a phase measured.
type Duration struct {
	// Name says what ended.
	Name string `json:"name"`
	// Seconds is the time from the begin of the phase, or the length.
	Seconds float64 `json:"seconds"`
}

// Requests is the number of requests of one kind.
type Requests struct {
	// Client is a short name of the client.
	Client string `json:"client"`
	// Verb is the verb of the API, for example patch.
	Verb string `json:"verb"`
	// Resource is the plural name of the kind, with the subresource.
	Resource string `json:"resource"`
	// Own is true for the Leases of the operator's election and heartbeat, which do not depend on the Etcds.
	Own bool `json:"own,omitempty"`
	// Count is the number of requests.
	Count int `json:"count"`
}

// Operator is the state of the operator's process.
type Operator struct {
	// ResidentBytes is the resident memory.
	ResidentBytes int64 `json:"residentBytes"`
	// HeapBytes is the size of all live objects after a garbage collection. 0: not measured.
	HeapBytes int64 `json:"heapBytes,omitempty"`
	// Goroutines is the number of goroutines.
	Goroutines int64 `json:"goroutines"`
}

// IsWrite returns whether the requests change objects. The API server answers reviews, such as that of a token, and stores none.
func (r Requests) IsWrite() bool {
	return !strings.HasSuffix(r.Resource, "reviews") && slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// IsOperatorWrite returns whether the operator changed objects, except for its own Leases.
func (r Requests) IsOperatorWrite() bool { return r.Client == OperatorClient && r.IsWrite() && !r.Own }

// SumRequests adds up the requests of the phase for which matches returns true.
func (p Phase) SumRequests(matches func(Requests) bool) int {
	sum := 0
	for _, requests := range p.Requests {
		if matches(requests) {
			sum += requests.Count
		}
	}

	return sum
}
