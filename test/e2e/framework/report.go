// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const (
	// reportTimeout bounds the report about a seed that does not respond.
	reportTimeout = 20 * time.Second
	// logLines is the number of lines of each log in a report. Members write up to ten lines for each connection to a peer.
	logLines = 100
)

// State returns the conditions of the Etcds and the state of their pods in a few lines. It never fails. If it cannot read
// objects, it returns the error.
func (ns *TestNamespace) State() string {
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()

	var out strings.Builder

	etcds := &druidv1alpha1.EtcdList{}
	if err := ns.Client.List(ctx, etcds, client.InNamespace(ns.Name)); err != nil {
		return err.Error()
	}

	fmt.Fprintf(&out, "in namespace %s:\n", ns.Name)

	for _, etcd := range etcds.Items {
		writeEtcd(&out, &etcd)
	}

	pods := &corev1.PodList{}
	if err := ns.Client.List(ctx, pods, client.InNamespace(ns.Name)); err != nil {
		fmt.Fprintln(&out, err)
	}

	for _, pod := range pods.Items {
		writePod(&out, &pod)
	}

	return out.String()
}

func writeEtcd(out io.Writer, etcd *druidv1alpha1.Etcd) {
	fmt.Fprintf(out, "Etcd %s: generation %d, observed %d, ready %t\n", etcd.Name, etcd.Generation, ptr.Deref(etcd.Status.ObservedGeneration, 0), ptr.Deref(etcd.Status.Ready, false))

	if operation := etcd.Status.LastOperation; operation != nil {
		fmt.Fprintf(out, "  %s %s: %s\n", operation.Type, operation.State, operation.Description)
	}

	for _, lastError := range etcd.Status.LastErrors {
		fmt.Fprintf(out, "  %s: %s\n", lastError.Code, lastError.Description)
	}

	for _, condition := range etcd.Status.Conditions {
		fmt.Fprintf(out, "  %s=%s (%s) %s\n", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
}

func writePod(out io.Writer, pod *corev1.Pod) {
	fmt.Fprintf(out, "Pod %s: %s on %s, deleting %t\n", pod.Name, pod.Status.Phase, pod.Spec.NodeName, pod.DeletionTimestamp != nil)

	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		fmt.Fprintf(out, "  %s: ready %t, restarts %d", status.Name, status.Ready, status.RestartCount)

		if waiting := status.State.Waiting; waiting != nil {
			fmt.Fprintf(out, ", waiting: %s %s", waiting.Reason, waiting.Message)
		}

		if terminated := status.LastTerminationState.Terminated; terminated != nil {
			fmt.Fprintf(out, ", last ended with %d: %s %s", terminated.ExitCode, terminated.Reason, terminated.Message)
		}

		fmt.Fprintln(out)
	}
}

// Report prints the Etcds, ManagedResources, Leases and PersistentVolumeClaims as YAML. It also prints the events and the
// last lines of the log of every container. Of the operator's log it prints the last lines that mention the namespace.
func (ns *TestNamespace) Report(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()

	out := GinkgoWriter
	fmt.Fprintf(out, "\n=== %s\n", ns.State())

	for _, list := range []client.ObjectList{&druidv1alpha1.EtcdList{}, &resourcesv1alpha1.ManagedResourceList{}, &coordinationv1.LeaseList{}, &corev1.PersistentVolumeClaimList{}} {
		ns.reportYAML(ctx, out, list)
	}

	ns.reportEvents(ctx, out)
	ns.reportLogs(ctx, out)
}

func (ns *TestNamespace) reportYAML(ctx context.Context, out io.Writer, list client.ObjectList) {
	if err := ns.Client.List(ctx, list, client.InNamespace(ns.Name)); err != nil {
		fmt.Fprintln(out, err)
		return
	}

	content, err := yaml.Marshal(withoutManagedFields(list))
	fmt.Fprintf(out, "\n=== %T %v\n%s", list, err, content)
}

func withoutManagedFields(list client.ObjectList) client.ObjectList {
	switch l := list.(type) {
	case *druidv1alpha1.EtcdList:
		for i := range l.Items {
			l.Items[i].ManagedFields = nil
		}
	case *resourcesv1alpha1.ManagedResourceList:
		for i := range l.Items {
			l.Items[i].ManagedFields = nil
		}
	case *coordinationv1.LeaseList:
		for i := range l.Items {
			l.Items[i].ManagedFields = nil
		}
	case *corev1.PersistentVolumeClaimList:
		for i := range l.Items {
			l.Items[i].ManagedFields = nil
		}
	}

	return list
}

func (ns *TestNamespace) reportEvents(ctx context.Context, out io.Writer) {
	events := &corev1.EventList{}
	if err := ns.Client.List(ctx, events, client.InNamespace(ns.Name)); err != nil {
		fmt.Fprintln(out, err)
	}

	slices.SortFunc(events.Items, func(a, b corev1.Event) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	fmt.Fprintln(out, "\n=== events")

	for _, event := range events.Items {
		fmt.Fprintf(out, "%s %s %s %s/%s: %s\n", event.CreationTimestamp.Format(time.TimeOnly), event.Type, event.Reason, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Message)
	}
}

func (ns *TestNamespace) reportLogs(ctx context.Context, out io.Writer) {
	pods := &corev1.PodList{}
	if err := ns.Client.List(ctx, pods, client.InNamespace(ns.Name)); err != nil {
		fmt.Fprintln(out, err)
	}

	for _, pod := range pods.Items {
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if status.RestartCount > 0 {
				ns.reportLog(ctx, out, &pod, corev1.PodLogOptions{Container: status.Name, Previous: true, TailLines: new(int64(logLines))})
			}

			ns.reportLog(ctx, out, &pod, corev1.PodLogOptions{Container: status.Name, TailLines: new(int64(logLines))})
		}
	}

	operator, err := ns.Operator(ctx)
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}

	operators, err := operator.pods(ctx)
	if err != nil {
		fmt.Fprintln(out, err)
	}

	for i := range operators {
		ns.reportLog(ctx, lastLinesWith{out: out, text: ns.Name}, &operators[i], corev1.PodLogOptions{TailLines: new(int64(2000))})
	}
}

func (ns *TestNamespace) reportLog(ctx context.Context, out io.Writer, pod *corev1.Pod, options corev1.PodLogOptions) {
	content, err := ns.Clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &options).DoRaw(ctx)
	if err != nil {
		content = []byte(err.Error() + "\n")
	}

	fmt.Fprintf(GinkgoWriter, "\n=== log of %s %s (before its restart: %t)\n", pod.Name, options.Container, options.Previous)
	_, _ = out.Write(content)
}

// lastLinesWith forwards the last lines that contain the text. It expects the whole log in one call of Write.
type lastLinesWith struct {
	out  io.Writer
	text string
}

func (l lastLinesWith) Write(content []byte) (int, error) {
	var lines [][]byte

	for line := range bytes.Lines(content) {
		if bytes.Contains(line, []byte(l.text)) {
			lines = append(lines, line)
		}
	}

	_, err := l.out.Write(bytes.Join(lines[max(0, len(lines)-logLines):], nil))

	return len(content), err
}
