// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// A Write is a request that the API server recorded, also one that it refused or only tried.
type Write struct {
	// User is who asked.
	User string
	// Verb is one of create, update, patch, delete and deletecollection.
	Verb string
	// Resource is the plural name, with the subresource behind a slash. Namespace and Name may be empty.
	Resource, Namespace, Name string
	// Code is the HTTP status of the answer.
	Code int
	// At is when it was answered.
	At time.Time
}

// String is a line for people.
func (w Write) String() string {
	return fmt.Sprintf("%s %s %s %s/%s (%d)", w.At.Format("15:04:05"), w.Verb, w.Resource, w.Namespace, w.Name, w.Code)
}

// Matches says whether the write is one of the named objects of the resource.
func (w Write) Matches(resource string, names ...string) bool {
	return w.Resource == resource && slices.Contains(names, w.Name)
}

// AuditWindow is the audit log from a moment on.
type AuditWindow struct {
	path  string
	start int64
}

// OpenAuditWindow starts a window now.
func (f *Framework) OpenAuditWindow() AuditWindow {
	GinkgoHelper()

	info, err := os.Stat(f.AuditLog)
	Expect(err).NotTo(HaveOccurred(), "SEED_AUDIT_LOG must name the API server's audit log")

	return AuditWindow{path: f.AuditLog, start: info.Size()}
}

// auditEvent is the part of an audit event that counts.
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

// Writes returns what was written since the window was opened by the user, oldest first. It fails when the log was rotated
// meanwhile.
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
		if err != nil { // what follows the last end of line is still being written
			return writes, nil
		}

		var r auditEvent
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}

		if r.User.Username == user && r.Stage == "ResponseComplete" {
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
