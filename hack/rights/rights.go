// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Right is one verb for one resource.
type Right struct {
	// Verb is the verb of the request.
	Verb string
	// Group is the API group. Empty: the core group.
	Group string
	// Resource is the plural name, followed by a slash and the subresource if there is one.
	Resource string
}

// String returns the right as in the file of unused rights.
func (r Right) String() string { return strings.TrimSuffix(r.Verb+" "+r.Resource+"."+r.Group, ".") }

// compare prints the granted rights that no request used. It returns an error if the file does not name one of them, or names one that is not granted.
func compare(out io.Writer, roles string, sent requests, unusedFile string, logs []string) error {
	granted, err := grantedIn(roles)
	if err != nil {
		return fmt.Errorf("reading the rights in %s: %w", roles, err)
	}
	reasons, err := reasonsIn(unusedFile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", unusedFile, err)
	}
	used := map[Right]bool{}
	for _, log := range logs {
		if err := sent.read(log, used); err != nil {
			return fmt.Errorf("reading %s: %w", log, err)
		}
	}
	var problems []string
	unused := 0
	for _, right := range granted {
		reason, isNamed := reasons[right.String()]
		delete(reasons, right.String())
		if used[right] {
			continue
		}
		unused++
		if !isNamed {
			reason = "no request used it"
			problems = append(problems, right.String()+" was not used: remove the right, or name the reason in "+unusedFile)
		}
		_, _ = fmt.Fprintf(out, "%s: %s\n", right, reason)
	}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		problems = append(problems, name+" is not granted: remove its line in "+unusedFile)
	}
	_, _ = fmt.Fprintf(out, "%d of %d rights were not used\n", unused, len(granted))
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}

	return nil
}

// reasonsIn returns the reasons in a file of unused rights by their rights.
func reasonsIn(path string) (map[string]string, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- the path is an argument
	if err != nil {
		return nil, err
	}
	reasons := map[string]string{}
	for line := range strings.Lines(string(content)) {
		right, reason, has := strings.Cut(strings.TrimSpace(line), ": ")
		if !has {
			return nil, fmt.Errorf("line %q has no reason", line)
		}
		reasons[right] = reason
	}

	return reasons, nil
}

// grantedIn returns the sorted rights of the Roles and ClusterRoles in a list. Those that are aggregated to a role of users are not rights of the operator.
func grantedIn(path string) ([]Right, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- the path is an argument
	if err != nil {
		return nil, err
	}
	list := rbacv1.ClusterRoleList{} // the fields of Roles are the same
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, err
	}
	granted := map[Right]bool{}
	for _, role := range list.Items {
		if isForUsers(role) {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[Right{Verb: verb, Group: group, Resource: resource}] = true
					}
				}
			}
		}
	}
	if len(granted) == 0 {
		return nil, errors.New("it grants none")
	}

	return slices.SortedFunc(maps.Keys(granted), func(a, b Right) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Verb, b.Verb))
	}), nil
}

func isForUsers(role rbacv1.ClusterRole) bool {
	for label := range role.Labels {
		if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") {
			return true
		}
	}

	return false
}

// requests are the requests of a user since a time.
type requests struct {
	user  string
	since time.Time
}

// event has the fields of an audit event that are compared.
type event struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup, Resource, Subresource string
	} `json:"objectRef"`
	RequestReceivedTimestamp time.Time         `json:"requestReceivedTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

// read adds the rights that allowed requests in a log used. It skips lines that an API server did not write completely.
func (r requests) read(path string, used map[Right]bool) error {
	file, err := os.Open(path) // #nosec G304 -- the path is an argument
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	const longest = 1 << 20
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		e := event{}
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.User.Username != r.user || e.RequestReceivedTimestamp.Before(r.since) || e.Annotations["authorization.k8s.io/decision"] != "allow" {
			continue
		}
		right := Right{Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource}
		if e.ObjectRef.Subresource != "" {
			right.Resource += "/" + e.ObjectRef.Subresource
		}
		used[right] = true
	}

	return lines.Err()
}
