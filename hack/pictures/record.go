// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	scrapeTimeout = 10 * time.Second
	// listing is the time between two lists of kubectl etcd.
	listing = time.Minute
)

// Recorder scrapes the operator and the members of the local seed. It reads only.
type Recorder struct {
	Directory string
	Log       io.Writer

	clients map[string]*http.Client
	pods    []pod
}

// pod is the part of a pod that the recorder reads.
type pod struct {
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Containers []struct {
			Name         string
			VolumeMounts []struct{ Name, MountPath string }
		}
		Volumes []struct {
			Name   string
			Secret *struct{ SecretName string }
		}
	}
	Status struct{ Phase, PodIP string }
}

// Run scrapes until the context ends. It also records the output of kubectl etcd, which takes longer, every minute.
func (r *Recorder) Run(ctx context.Context) error {
	r.clients = map[string]*http.Client{}

	var group sync.WaitGroup
	defer group.Wait()

	group.Go(func() { r.repeat(ctx, listing, r.list) })
	r.repeat(ctx, interval, r.scrapeAll)

	return nil
}

// repeat calls a function until the context ends, and prints its errors.
func (r *Recorder) repeat(ctx context.Context, period time.Duration, call func(context.Context) error) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()

	for {
		if err := call(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(r.Log, err)
		}

		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// scrapeAll scrapes all pods at the same time. If it cannot list them, it scrapes the pods of the last list.
func (r *Recorder) scrapeAll(ctx context.Context) error {
	var pods struct{ Items []pod }

	listErr := get(ctx, "/api/v1/pods", &pods)
	if listErr == nil {
		r.pods = pods.Items
	}

	var group sync.WaitGroup
	defer group.Wait()

	for _, pod := range r.pods {
		job := pod.job()
		if job == "" || pod.Status.PodIP == "" || pod.Status.Phase != "Running" {
			continue
		}

		client, url, err := r.client(ctx, pod, job)
		if err != nil {
			fmt.Fprintln(r.Log, err)

			continue
		}

		group.Go(func() {
			// An empty file is a failed scrape.
			content, err := scrapeURL(ctx, client, url)
			if err == nil || ctx.Err() == nil {
				err = errors.Join(err, r.save(filepath.Join(job, pod.Metadata.Namespace, pod.Metadata.Name), time.Now().UnixMilli(), content))
			}

			if err != nil && ctx.Err() == nil {
				fmt.Fprintln(r.Log, err)
			}
		})
	}

	return listErr
}

// job returns the directory of the scrapes of a pod, or nothing.
func (p pod) job() string {
	for _, container := range p.Spec.Containers {
		switch container.Name {
		case "etcd", "gardener-extension-etcd-druid":
			return map[string]string{"etcd": "etcd", "gardener-extension-etcd-druid": "operator"}[container.Name]
		}
	}

	return ""
}

// client returns a client for the metrics of a pod, and their URL. Members accept only the client certificate that they mount themselves.
func (r *Recorder) client(ctx context.Context, pod pod, job string) (*http.Client, string, error) {
	if job == "operator" {
		return http.DefaultClient, "http://" + net.JoinHostPort(pod.Status.PodIP, "8080") + "/metrics", nil
	}

	secret := pod.clientSecret()
	if secret == "" {
		return http.DefaultClient, "http://" + net.JoinHostPort(pod.Status.PodIP, "2379") + "/metrics", nil
	}

	key := pod.Metadata.Namespace + "/" + secret
	if r.clients[key] == nil {
		var content struct{ Data map[string][]byte }
		if err := get(ctx, "/api/v1/namespaces/"+pod.Metadata.Namespace+"/secrets/"+secret, &content); err != nil {
			return nil, "", err
		}

		certificate, err := tls.X509KeyPair(content.Data["tls.crt"], content.Data["tls.key"])
		if err != nil {
			return nil, "", fmt.Errorf("secret %s: %w", key, err)
		}

		// #nosec G402 -- the certificate of the server has no address of the pod, and the metrics of the local seed are not confidential
		r.clients[key] = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12,
		}}}
	}

	return r.clients[key], "https://" + net.JoinHostPort(pod.Status.PodIP, "2379") + "/metrics", nil
}

// clientSecret returns the Secret with the client certificate that etcd mounts.
func (p pod) clientSecret() string {
	for _, container := range p.Spec.Containers {
		for _, mount := range container.VolumeMounts {
			if strings.TrimSuffix(mount.MountPath, "/") != "/var/etcd/ssl/client" {
				continue
			}

			for _, volume := range p.Spec.Volumes {
				if volume.Name == mount.Name && volume.Secret != nil {
					return volume.Secret.SecretName
				}
			}
		}
	}

	return ""
}

func scrapeURL(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}

	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()

	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returned %s", url, response.Status)
	}

	return io.ReadAll(response.Body)
}

// list writes the output of kubectl etcd for all Etcds, and for each Etcd with more than one member.
func (r *Recorder) list(ctx context.Context) error {
	var etcds struct {
		Items []struct {
			Metadata struct{ Name, Namespace string }
			Spec     struct{ Replicas int }
		}
	}

	if err := get(ctx, "/apis/druid.gardener.cloud/v1alpha1/etcds", &etcds); err != nil {
		return err
	}

	now := time.Now().UnixMilli()
	err := r.output(ctx, filepath.Join("terminal", "list"), now, "etcd", "status", "-A")

	for _, etcd := range etcds.Items {
		if etcd.Spec.Replicas < 2 {
			continue
		}

		namespace, name := etcd.Metadata.Namespace, etcd.Metadata.Name
		for _, command := range []string{"status", "why"} {
			err = errors.Join(err, r.output(ctx, filepath.Join("terminal", command, namespace, name), now, "etcd", command, "-n", namespace, name))
		}
	}

	return err
}

// output writes the output of kubectl. Exit code 3 reports a cluster that is not healthy.
func (r *Recorder) output(ctx context.Context, directory string, at int64, arguments ...string) error {
	command := exec.CommandContext(ctx, "kubectl", arguments...)

	content, err := command.Output()
	if err != nil && command.ProcessState.ExitCode() != 3 {
		return fmt.Errorf("kubectl %s: %w", strings.Join(arguments, " "), err)
	}

	return r.save(directory, at, content)
}

func (r *Recorder) save(directory string, at int64, content []byte) error {
	return write(filepath.Join(r.Directory, directory, fmt.Sprintf("%d.txt", at)), func(w io.Writer) error {
		_, err := w.Write(content)

		return err
	})
}

// get reads an object of the API server.
func get(ctx context.Context, path string, into any) error {
	command := exec.CommandContext(ctx, "kubectl", "get", "--request-timeout=10s", "--raw", path)
	command.Stderr = os.Stderr

	content, err := command.Output()
	if err != nil {
		return fmt.Errorf("kubectl get --raw %s: %w", path, err)
	}

	return json.Unmarshal(content, into)
}
