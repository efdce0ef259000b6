// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const homepage = "https://github.com/gardener/gardener-extension-etcd-druid"

// krewPlugin is the manifest of a plugin in an index of krew. The module of krew is not imported, because it requires another version of
// client-go.
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector metav1.LabelSelector `json:"selector"`
	URI      string               `json:"uri"`
	SHA256   string               `json:"sha256"`
	Bin      string               `json:"bin"`
}

// krewManifest describes the archives of the plugin.
func (r release) krewManifest(files map[string][]byte) ([]byte, error) {
	manifest := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   map[string]string{"name": "etcd"},
		Spec: krewSpec{
			Version:          r.version,
			Homepage:         homepage,
			ShortDescription: "Show and change etcd clusters of Gardener",
			Description: "Shows the status of Etcd resources (druid.gardener.cloud), previews changes,\n" +
				"requests snapshots and other tasks, runs etcdctl, and collects support bundles.\n",
		},
	}
	for _, p := range r.platforms {
		content, ok := files[p.archiveName()]
		if !ok {
			return nil, errors.New("no archive for " + p.os + "/" + p.arch)
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, krewPlatform{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"os": p.os, "arch": p.arch}},
			URI:      fmt.Sprintf("%s/releases/download/%s/%s", homepage, r.version, p.archiveName()),
			SHA256:   fmt.Sprintf("%x", sha256.Sum256(content)),
			Bin:      p.binary(),
		})
	}

	return yaml.Marshal(manifest)
}
