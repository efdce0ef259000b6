// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/enforcement"
)

// newVerifyNetworkPoliciesCommand returns the command that `helm test` runs.
func newVerifyNetworkPoliciesCommand(ctx context.Context) *cobra.Command {
	var allowed, rejected string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "verify-network-policies",
		Short: "Verify that the cluster enforces NetworkPolicies",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := enforcement.Verify(ctx, allowed, rejected, timeout); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "The cluster enforces NetworkPolicies")

			return err
		},
	}
	cmd.Flags().StringVar(&allowed, "allowed", "", "Address host:port that the NetworkPolicies allow.")
	cmd.Flags().StringVar(&rejected, "rejected", "", "Address host:port that the NetworkPolicies reject.")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "Time for each of them.")

	return cmd
}

// monitorNetworkPolicies adds the check whether the cluster enforces the NetworkPolicy of the operator. In a seed, the chart creates none.
func monitorNetworkPolicies(mgr manager.Manager, policies *configv1alpha1.NetworkPolicyConfiguration) error {
	if policies == nil || len(policies.Operator) == 0 || ownNamespace() == "" {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(policies.Operator[0].PodSelector)
	if err != nil {
		return fmt.Errorf("reading rendering.networkPolicies.operator: %w", err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("naming this instance: %w", err)
	}

	return mgr.Add(&enforcement.Monitor{
		Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("network-policies"), Clock: clock.RealClock{},
		Namespace: ownNamespace(), Selector: selector, PodName: hostname,
	})
}
