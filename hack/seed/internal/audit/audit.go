// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package audit counts the writes in the API server's audit log.
package audit

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Writer identifies a client and the kind of its writes.
type Writer struct {
	// User is the name of the client at the API server. Agent is its user agent.
	User, Agent string
	// Verb and Resource describe the writes. A resource is resource.group or resource.group/subresource.
	Verb, Resource string
}

// Count is the number of a Writer's requests, including failed requests.
type Count struct {
	Writer
	Times int
}

type event struct {
	Stage     string    `json:"stage"`
	Verb      string    `json:"verb"`
	UserAgent string    `json:"userAgent"`
	Received  time.Time `json:"requestReceivedTimestamp"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Group       string `json:"apiGroup"`
	} `json:"objectRef"`
}

// Writes counts the events of the log since from, and returns the most frequent first. It ignores an incomplete last
// line.
func Writes(log io.Reader, from time.Time) ([]Count, error) {
	times := map[Writer]int{}
	reader := bufio.NewReader(log)

	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			break
		}

		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}

		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading a line of the audit log: %w", err)
		}

		if e.Stage == "ResponseComplete" && !e.Received.Before(from) {
			times[e.writer()]++
		}
	}

	counts := make([]Count, 0, len(times))
	for writer, count := range times {
		counts = append(counts, Count{Writer: writer, Times: count})
	}

	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(fmt.Sprint(a.Writer), fmt.Sprint(b.Writer)))
	})

	return counts, nil
}

func (e event) writer() Writer {
	resource := e.Object.Resource
	if e.Object.Group != "" {
		resource += "." + e.Object.Group
	}

	if e.Object.Subresource != "" {
		resource += "/" + e.Object.Subresource
	}

	return Writer{User: e.User.Username, Agent: e.UserAgent, Verb: e.Verb, Resource: resource}
}
