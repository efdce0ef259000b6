// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package measure reads what the API server, the operator and the kernel record: completed requests, metrics, CPU time and memory.
//
// What may not live here: what is done to the cluster, and what is expected of the figures.
package measure

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
)

// event is a line of the audit log, with the fields that are counted. To decode the other fields too would take CPU time of the measured processes.
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
	operatorUser, operatorNamespace string

	log *bufio.Reader
	// rest is the beginning of a line that was not complete.
	rest   []byte
	counts map[report.Requests]int
}

// NewAuditLog returns an AuditLog. Each line of the log is an event as JSON. The API server appends to the log. The operator is the user
// operatorUser, and its own Leases are in operatorNamespace.
func NewAuditLog(log io.Reader, operatorUser, operatorNamespace string) *AuditLog {
	return &AuditLog{log: bufio.NewReaderSize(log, 1<<20), operatorUser: operatorUser, operatorNamespace: operatorNamespace, counts: map[report.Requests]int{}}
}

// Reset ignores all requests until now.
func (a *AuditLog) Reset() error {
	_, err := a.Requests()
	a.counts = map[report.Requests]int{}

	return err
}

// Requests counts the requests since Reset. The largest counts come first. The error states the line that cannot be read.
func (a *AuditLog) Requests() ([]report.Requests, error) {
	for {
		line, err := a.log.ReadBytes('\n')
		line, a.rest = append(a.rest, line...), nil
		switch {
		case errors.Is(err, io.EOF):
			a.rest = line

			return sorted(a.counts), nil
		case err != nil:
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading a line of the audit log: %w", err)
		}
		if e.Stage == "ResponseComplete" || e.Stage == "Panic" {
			a.counts[a.kind(e)]++
		}
	}
}

// kind returns the kind of the request of an event, without a number.
func (a *AuditLog) kind(e event) report.Requests {
	requests := report.Requests{Client: a.name(e), Verb: e.Verb, Resource: e.Object.Resource}
	if e.Object.Subresource != "" {
		requests.Resource += "/" + e.Object.Subresource
	}
	requests.Own = requests.Client == report.OperatorClient && e.Object.Resource == "leases" && e.Object.Namespace == a.operatorNamespace

	return requests
}

// name returns the name of a client: that of its program, for all controllers of a program.
func (a *AuditLog) name(e event) string {
	user := e.User.Username
	switch {
	case user == a.operatorUser:
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
