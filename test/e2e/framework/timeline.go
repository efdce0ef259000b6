// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Timeline records the state of an Etcd over time: the state of its pods and the message of its condition Reconciled.
type Timeline struct {
	start time.Time
	stop  context.CancelFunc
	done  sync.WaitGroup
	text  strings.Builder
}

// StartTimeline starts a timeline of the Etcd, which need not exist yet. The timeline stops with the test at the
// latest.
func (ns *TestNamespace) StartTimeline(ctx context.Context, etcd *druidv1alpha1.Etcd) *Timeline {
	ctx, stop := context.WithCancel(ctx)
	t := &Timeline{start: time.Now(), stop: stop}
	key := client.ObjectKey{Namespace: ns.Name, Name: etcd.Name}

	t.done.Go(func() {
		ticker := time.NewTicker(PollInterval / 2)
		defer ticker.Stop()

		for last := ""; ctx.Err() == nil; {
			if line := ns.summarize(ctx, key); line != last && ctx.Err() == nil {
				last = line
				fmt.Fprintf(&t.text, "%6.1fs  %s\n", time.Since(t.start).Seconds(), line)
			}

			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	})
	DeferCleanup(t.end)

	return t
}

func (t *Timeline) end() {
	t.stop()
	t.done.Wait()
}

// End stops the timeline, adds it to the report, and returns its duration.
func (t *Timeline) End(name string) time.Duration {
	took := time.Since(t.start)
	t.end()
	AddReportEntry(fmt.Sprintf("%s, %.0f s", name, took.Seconds()), t.text.String(), ReportEntryVisibilityAlways)

	return took
}

// summarize returns a line of the timeline.
func (ns *TestNamespace) summarize(ctx context.Context, key client.ObjectKey) string {
	etcd, pods := &druidv1alpha1.Etcd{}, &corev1.PodList{}
	if ns.Client.Get(ctx, key, etcd) != nil || ns.Client.List(ctx, pods, client.InNamespace(key.Namespace)) != nil {
		return "?"
	}

	var words []string

	for _, pod := range pods.Items {
		state := "starting"

		switch {
		case pod.DeletionTimestamp != nil:
			state = "terminating"
		case IsPodReady(&pod):
			state = "ready"
		case pod.Status.Phase == corev1.PodRunning:
			state = "running"
		}

		words = append(words, strings.TrimPrefix(pod.Name, key.Name+"-")+":"+state)
	}

	return fmt.Sprintf("%-32s %s", strings.Join(words, " "), Condition(etcd, "Reconciled").Message)
}
