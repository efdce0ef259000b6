// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Write is a request that the API server recorded. It may be a dry run, or a request that the API server rejected.
type Write struct {
	// User is the name of the user who sent the request.
	User string
	// Verb is one of create, update, patch, delete and deletecollection.
	Verb string
	// Resource is the plural name, followed by a slash and the subresource if there is one. Namespace and Name may be
	// empty.
	Resource, Namespace, Name string
	// Code is the HTTP status code of the response.
	Code int
	// At is the time of the response.
	At time.Time
}

// String returns a line for failure messages.
func (w Write) String() string {
	return fmt.Sprintf("%s %s %s %s/%s (%d)", w.At.Format("15:04:05"), w.Verb, w.Resource, w.Namespace, w.Name, w.Code)
}

// Matches returns whether the write is a write to one of the named objects of the resource.
func (w Write) Matches(resource string, names ...string) bool {
	return w.Resource == resource && slices.Contains(names, w.Name)
}

// AuditWindow is the part of the audit log since a point in time.
type AuditWindow struct {
	path  string
	start int64
}

// OpenAuditWindow returns the window of a spec that starts now.
func (f *Framework) OpenAuditWindow() AuditWindow {
	GinkgoHelper()
	requireSeed()

	return f.OpenSuiteAuditWindow()
}

// OpenSuiteAuditWindow returns the window of a suite that starts now. The cluster must be the local seed.
func (f *Framework) OpenSuiteAuditWindow() AuditWindow {
	GinkgoHelper()

	info, err := os.Stat(f.AuditLog)
	Expect(err).NotTo(HaveOccurred(), "SEED_AUDIT_LOG must be the path of the audit log of the API server")

	return AuditWindow{path: f.AuditLog, start: info.Size()}
}

// Conflicts returns how many patches of the status of Etcds the user has sent since the window was opened. It also returns how many of them the API server
// rejected with a conflict.
func (a AuditWindow) Conflicts(user string) (patches, conflicts int, err error) {
	written, err := a.Writes(user)
	for _, write := range written {
		if write.Verb != "patch" || write.Resource != "etcds/status" {
			continue
		}
		patches++
		if write.Code == http.StatusConflict {
			conflicts++
		}
	}

	return patches, conflicts, err
}

// reads are the verbs of requests that write nothing. The log contains those of the operator.
var reads = []string{"get", "list", "watch"}

// auditEvent contains the fields of an audit event that a Write needs.
type auditEvent struct {
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	StageTimestamp time.Time `json:"stageTimestamp"`
}

// Writes returns the writes of the user since the window was opened, in the order of the log. It returns an error if
// the log was rotated since then.
func (a AuditWindow) Writes(user string) ([]Write, error) {
	file, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	if end, err := file.Seek(0, io.SeekEnd); err != nil || end < a.start {
		return nil, fmt.Errorf("the audit log %s was rotated within the window (%w)", a.path, err)
	}

	if _, err := file.Seek(a.start, io.SeekStart); err != nil {
		return nil, err
	}

	var writes []Write

	for reader := bufio.NewReader(file); ; {
		line, err := reader.ReadBytes('\n')
		if err != nil { // the API server still writes the last line
			return writes, nil
		}

		var r auditEvent
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}

		if r.User.Username == user && r.Stage == "ResponseComplete" && !slices.Contains(reads, r.Verb) {
			writes = append(writes, r.write())
		}
	}
}

func (r auditEvent) write() Write {
	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}

	return Write{
		User: r.User.Username, Verb: r.Verb, Resource: resource, Namespace: r.ObjectRef.Namespace, Name: r.ObjectRef.Name,
		Code: r.ResponseStatus.Code, At: r.StageTimestamp,
	}
}
