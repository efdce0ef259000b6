// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// seedTool is the directory of the tool of the local seed, relative to the directory of the tests.
var seedTool = filepath.Join("..", "..", "hack", "seed")

// Partition disconnects the nodes from the network. The cleanup connects them again.
func (f *Framework) Partition(ctx context.Context, nodes ...string) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) { f.Heal(ctx, nodes...) })

	for _, node := range nodes {
		f.seed(ctx, "partition", node)
	}
}

// Heal connects the nodes to the network again and waits until they are ready.
func (f *Framework) Heal(ctx context.Context, nodes ...string) {
	GinkgoHelper()

	for _, node := range nodes {
		f.seed(ctx, "heal", node)
	}

	for _, node := range nodes {
		Eventually(f.isReady).WithContext(ctx).WithArguments(node).WithTimeout(ReadyTimeout).WithPolling(PollInterval).Should(BeTrue(), node)
	}
}

func (f *Framework) seed(ctx context.Context, args ...string) string {
	GinkgoHelper()
	requireSeed()

	return output(exec.CommandContext(ctx, "go", append([]string{"run", "-C", seedTool, "."}, args...)...)) // #nosec G204 -- go, with the arguments of the tests
}

// output runs a command, expects that it succeeds, and returns its standard output.
func output(command *exec.Cmd) string {
	GinkgoHelper()
	errors := &bytes.Buffer{}
	command.Stderr = errors
	text, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "%v: %s\n%s", command.Args, text, errors)

	return string(text)
}

func (f *Framework) isReady(ctx context.Context, name string) (bool, error) {
	node := &corev1.Node{}
	if err := f.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return false, err
	}

	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue, nil
		}
	}

	return false, nil
}

// PinToNode moves the operator to the node. The cleanup removes the node selector.
func (o *Operator) PinToNode(ctx context.Context, node string) {
	GinkgoHelper()
	requireSeed()

	pin := func(ctx context.Context, selector map[string]string) {
		GinkgoHelper()

		deployment := o.get(ctx)
		before := deployment.DeepCopy()
		deployment.Spec.Template.Spec.NodeSelector = selector
		Expect(o.Client.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
		o.EventuallyLeading(ctx)
	}

	DeferCleanup(func(ctx SpecContext) { pin(ctx, nil) })
	pin(ctx, map[string]string{corev1.LabelHostname: node})
}
