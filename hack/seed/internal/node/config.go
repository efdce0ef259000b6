// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/network"
)

//go:embed templates/containerd.toml
var containerdTemplate string

//go:embed templates/kubelet.yaml
var kubeletTemplate string

//go:embed templates/kube-proxy.yaml
var proxyTemplate string

//go:embed templates/cni.conflist
var cniTemplate string

// values are the values of the templates.
type values struct {
	Dir, PKI, Name, PodCIDR, ClusterCIDR, DNS, Cgroup, PauseImage string
}

// Files returns the contents of the node's configuration files by their paths relative to the node's directory.
func Files(l layout.Layout, n layout.Node) (map[string]string, error) {
	v := values{
		Dir:         l.NodeDir(n),
		PKI:         l.PKI(),
		Name:        n.Name(),
		PodCIDR:     n.PodCIDR(),
		ClusterCIDR: n.Cluster.PodCIDR(),
		DNS:         n.Cluster.DNSIP(),
		Cgroup:      n.Cgroup(),
		PauseImage:  image.PauseTag,
	}
	files := map[string]string{"resolv.conf": "nameserver 127.0.0.1\n"}

	for name, text := range map[string]string{
		"containerd.toml":      containerdTemplate,
		"kubelet.yaml":         kubeletTemplate,
		"kube-proxy.yaml":      proxyTemplate,
		"cni/10-seed.conflist": cniTemplate,
	} {
		parsed, err := template.New(name).Option("missingkey=error").Parse(text)
		if err != nil {
			return nil, fmt.Errorf("reading the template of %s: %w", name, err)
		}

		var buffer bytes.Buffer
		if err := parsed.Execute(&buffer, v); err != nil {
			return nil, fmt.Errorf("filling %s: %w", name, err)
		}

		files[name] = buffer.String()
	}

	return files, nil
}

func writeFiles(l layout.Layout, n layout.Node) error {
	files, err := Files(l, n)
	if err != nil {
		return err
	}

	for name, content := range files {
		path := filepath.Join(l.NodeDir(n), name)
		if current, err := os.ReadFile(path); err == nil && string(current) == content {
			continue // kube-proxy exits when its file is written, also with the same content
		}

		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}

		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}

	return nil
}

// inside returns the command line that runs a command in the node's network namespace.
func inside(n layout.Node, args ...string) []string {
	return append([]string{"/usr/bin/nsenter", "--net=" + network.Path(n)}, args...)
}
