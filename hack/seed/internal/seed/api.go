// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The types contain the fields of API objects that this package reads. client-go would be most of the packages of this tool, which Go
// compiles before the first line of the log.
type (
	object struct {
		Metadata struct {
			Name              string
			Generation        int64
			DeletionTimestamp *time.Time
		}
		Spec struct {
			NodeName       string
			HolderIdentity string
			ClusterIP      string
			Replicas       int64
			Selector       struct{ MatchLabels map[string]string }
		}
		Status struct {
			Phase                                                            string
			ObservedGeneration, UpdatedReplicas, AvailableReplicas, Replicas int64
			Conditions                                                       []condition
			InitContainerStatuses, ContainerStatuses                         []container
			LastErrors                                                       []struct{ Description string }
			LastOperation                                                    struct {
				Type, State, Description string
				Progress                 int
			}
		}
	}
	condition struct {
		Type, Status, Message string
		LastHeartbeatTime     time.Time
	}
	container struct {
		Name  string
		Ready bool
		State struct {
			Waiting    *struct{ Reason string }
			Terminated *struct{ ExitCode int }
		}
	}
	list struct{ Items []object }
)

// ready returns the condition Ready. Without one, its status is empty.
func (o object) ready() condition {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c
		}
	}

	return condition{}
}

// api is a client of the API server with the certificate of the administrator.
type api struct {
	server string
	client http.Client
}

func (s *Seed) api() (*api, error) {
	file := func(name string) string { return filepath.Join(s.Layout.PKI(), name) }

	pair, err := tls.LoadX509KeyPair(file("admin.crt"), file("admin.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the administrator: %w; start the cluster with %s", err, s.start())
	}

	authority, err := os.ReadFile(file("ca.crt"))
	if err != nil {
		return nil, err
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)

	return &api{
		server: fmt.Sprintf("https://%s:%d", s.Layout.HostIP(), s.Layout.APIPort()),
		client: http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		}},
	}, nil
}

// get reads the object or the list at the path. A nil result discards the response.
func (a *api) get(ctx context.Context, path string, result any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server+path, nil)
	if err != nil {
		return err
	}

	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()

	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}

	if result == nil {
		return nil
	}

	return json.NewDecoder(response.Body).Decode(result)
}

// missingPods describes the state of each pod that is not ready, in one line.
func (a *api) missingPods(ctx context.Context, namespace, selector string) (string, error) {
	var pods list
	if err := a.get(ctx, "/api/v1/namespaces/"+namespace+"/pods?labelSelector="+url.QueryEscape(selector), &pods); err != nil {
		return "", err
	}

	return describePods(pods), nil
}

func describePods(pods list) string {
	if len(pods.Items) == 0 {
		return "no pod yet"
	}

	var lines []string

	for _, pod := range pods.Items {
		if line := describePod(pod); line != "" {
			lines = append(lines, line)
		}
	}

	if len(lines) == 0 {
		return "its pods are ready"
	}

	return strings.Join(lines, "; ")
}

// describePod returns an empty string for a pod that is ready and not terminating.
func describePod(pod object) string {
	switch {
	case pod.Metadata.DeletionTimestamp != nil:
		return "pod " + pod.Metadata.Name + " is terminating"
	case pod.ready().Status == "True":
		return ""
	}

	containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	state, ready := pod.Status.Phase, 0

	for _, c := range containers {
		if c.Ready {
			ready++
		}

		if waiting := c.State.Waiting; waiting != nil && waiting.Reason != "PodInitializing" {
			state = waiting.Reason + " (" + c.Name + ")"
		}

		if ended := c.State.Terminated; ended != nil && ended.ExitCode != 0 {
			state = fmt.Sprintf("failing (%s ended with code %d)", c.Name, ended.ExitCode)
		}
	}

	return fmt.Sprintf("pod %s is %s, %d of %d containers ready", pod.Metadata.Name, state, ready, len(containers))
}
