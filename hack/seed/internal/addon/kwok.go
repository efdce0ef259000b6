// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package addon

import (
	"context"
	"path/filepath"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

// kwokStages are the files of the module of KWOK with the changes that KWOK simulates. Nodes and pods become ready at once, Jobs complete,
// and deleted pods end.
var kwokStages = []string{
	"node/fast/node-initialize.yaml",
	"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
	"pod/fast/pod-ready.yaml",
	"pod/fast/pod-complete.yaml",
	"pod/fast/pod-delete.yaml",
}

// EnsureKwok starts KWOK, which simulates the nodes with the annotation and their pods. module is the directory of the module of KWOK. stages are
// files with further changes that it simulates.
func (m Manager) EnsureKwok(ctx context.Context, module string, stages ...string) error {
	args := []string{
		m.Kwok,
		"--kubeconfig=" + m.Layout.Kubeconfig(),
		"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
		"--node-lease-duration-seconds=40",
		"--cidr=" + m.Layout.SimulatedCIDR(), // gardenlet does not start if a pod has an address outside of the pod network
	}
	for _, stage := range kwokStages {
		args = append(args, "--config="+filepath.Join(module, "kustomize", "stage", stage))
	}

	for _, file := range stages {
		args = append(args, "--config="+file)
	}

	return m.Processes.Ensure(ctx, process.Spec{Name: kwok, Args: args, Inputs: stages})
}
