// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/ownership"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

// namespaceFile is where a pod finds its namespace, if it has a token.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace is the namespace of the operator's pod: of LEADER_ELECTION_NAMESPACE, which the chart sets, else of the token in
// the pod. Empty outside of a pod.
func ownNamespace() string {
	content, _ := os.ReadFile(namespaceFile) // there is none outside of a pod

	return cmp.Or(os.Getenv("LEADER_ELECTION_NAMESPACE"), strings.TrimSpace(string(content)))
}

// guardElection adds the guard to the leader election. It checks once, so that a process that may act does not wait.
func guardElection(ctx context.Context, o *Options, config *rest.Config, options *manager.Options) (*ownership.Guard, error) {
	uncached, err := client.New(config, client.Options{Scheme: options.Scheme})
	if err != nil {
		return nil, fmt.Errorf("setting up the client of the guard: %w", err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this instance: %w", err)
	}
	guard := &ownership.Guard{
		Client:   uncached,
		Lease:    client.ObjectKey{Namespace: options.LeaderElectionNamespace, Name: options.LeaderElectionID},
		Hostname: hostname,
		TakeOver: o.Config.Predecessor == configv1alpha1.PredecessorTakeOver,
	}
	if err := guard.Check(ctx); err != nil {
		return nil, err
	}
	if !options.LeaderElection {
		if reason := guard.StandbyReason(); reason != "" {
			return nil, fmt.Errorf("this operator must not act, and it can be standby only with leader election: %s", reason)
		}

		return guard, nil
	}
	if guard.Lease.Namespace == "" {
		return nil, fmt.Errorf("the namespace of the election is not known: set --leader-election-namespace or LEADER_ELECTION_NAMESPACE")
	}
	options.LeaderElectionResourceLockInterface, err = ownership.NewLock(config, guard.Lease, *options.RenewDeadline/2, guard)

	return guard, err
}

// addOwnership adds the ownership guard to a manager, and the hand-back of Etcds if the policy requests it.
func addOwnership(mgr manager.Manager, guard *ownership.Guard, policy configv1alpha1.PredecessorPolicy) error {
	guard.Recorder, guard.Elected = mgr.GetEventRecorder("ownership"), mgr.Elected()
	if err := mgr.AddMetricsServerExtraHandler(ownership.Path, guard); err != nil {
		return err
	}
	if err := mgr.Add(guard); err != nil {
		return err
	}
	if policy != configv1alpha1.PredecessorGiveBack {
		return nil
	}

	return mgr.Add(&ownership.HandBack{
		Client:   guard.Client,
		Observer: &observer.Observer{Reader: mgr.GetAPIReader(), APIReader: mgr.GetAPIReader()},
		Recorder: guard.Recorder,
		Clock:    clock.RealClock{},
	})
}
