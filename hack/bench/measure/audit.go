// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package measure reads what the API server and the kernel record: completed requests, CPU time, memory.
package measure

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
)

// Clients map requests to short names of clients.
type Clients struct {
	// OperatorUser is the user of the operator, and OperatorNamespace is its namespace.
	OperatorUser, OperatorNamespace string
}

// event is a line of the audit log.
type event struct {
	Stage     string `json:"stage"`
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
	} `json:"objectRef"`
}

// AuditLog counts the requests in the audit log of the API server.
type AuditLog struct {
	// Path is the path of the log. Each line is an event as JSON.
	Path    string
	Clients Clients

	offset int64
	// rest is the beginning of a line that was not complete.
	rest []byte
}

// Skip ignores all events until now.
func (a *AuditLog) Skip() error {
	_, err := a.Next()

	return err
}

// Next counts the requests since the last call. The largest counts come first.
func (a *AuditLog) Next() ([]report.Requests, error) {
	file, err := os.Open(a.Path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	counts := map[report.Requests]int{}
	reader := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		a.offset += int64(len(line))
		if errors.Is(err, io.EOF) {
			a.rest = append(a.rest, line...)

			return sorted(counts), nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		line, a.rest = append(a.rest, line...), nil
		if requests, counted, err := a.Clients.parse(line); err != nil {
			return nil, err
		} else if counted {
			counts[requests]++
		}
	}
}

// parse returns the kind of the request of an event. It returns false for events of requests that are not complete.
func (c Clients) parse(line []byte) (report.Requests, bool, error) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return report.Requests{}, false, fmt.Errorf("reading a line of the audit log: %w", err)
	}
	if e.Stage != "ResponseComplete" && e.Stage != "Panic" {
		return report.Requests{}, false, nil
	}
	requests := report.Requests{Client: c.name(e), Verb: e.Verb, Resource: e.Object.Resource}
	if e.Object.Subresource != "" {
		requests.Resource += "/" + e.Object.Subresource
	}
	requests.Own = requests.Client == report.OperatorClient && e.Object.Resource == "leases" && e.Object.Namespace == c.OperatorNamespace

	return requests, true, nil
}

// name returns the name of a client: that of its program, for all controllers of a program.
func (c Clients) name(e event) string {
	user := e.User.Username
	switch {
	case user == c.OperatorUser:
		return report.OperatorClient
	case strings.HasPrefix(user, "system:serviceaccount:kube-system:"), user == "system:kube-controller-manager":
		return "kube-controller-manager"
	case user == "system:kube-scheduler":
		return "kube-scheduler"
	case user == "system:apiserver":
		return "kube-apiserver"
	case strings.HasSuffix(user, ":gardener-resource-manager"):
		return "gardener-resource-manager"
	default: // several programs use the certificate of the administrator
		program, _, _ := strings.Cut(e.UserAgent, "/")

		return cmp.Or(program, user)
	}
}

func sorted(counts map[report.Requests]int) []report.Requests {
	list := make([]report.Requests, 0, len(counts))
	for requests, count := range counts {
		requests.Count = count
		list = append(list, requests)
	}
	slices.SortFunc(list, func(a, b report.Requests) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Resource, b.Resource))
	})

	return list
}

// Merge adds up the counts of both lists.
func Merge(a, b []report.Requests) []report.Requests {
	counts := map[report.Requests]int{}
	for _, requests := range slices.Concat(a, b) {
		count := requests.Count
		requests.Count = 0
		counts[requests] += count
	}

	return sorted(counts)
}
