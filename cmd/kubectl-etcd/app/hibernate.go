// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

func (p *plugin) hibernateCommand() *cobra.Command {
	return p.etcdCommand("hibernate", "Stop all members and keep their volumes",
		"Set spec.replicas to 0 and request the reconciliation. With a store, the operator takes a full snapshot first. In a seed,\n"+
			"hibernate the shoot instead: gardenlet sets spec.replicas.",
		func(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd) error {
			return p.requested(session.scale(ctx, etcd, 0), etcd)
		})
}

func (p *plugin) wakeCommand() *cobra.Command {
	replicas := int32(0)
	command := p.etcdCommand("wake", "Start all members of a hibernated cluster",
		"Set spec.replicas to the size before the hibernation and request the reconciliation.",
		func(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd) error {
			if etcd.Spec.Replicas > 0 {
				return fmt.Errorf("etcd %s is not hibernated: spec.replicas is %d", etcd.Name, etcd.Spec.Replicas)
			}
			size := replicas
			if size == 0 {
				recorded, err := session.recorded(ctx, etcd)
				if err != nil {
					return err
				}
				if size = recorded.Size; size == 0 {
					return usageError{fmt.Errorf("the size of %s is not recorded, because it has never run: set --replicas", etcd.Name)}
				}
			}

			return p.requested(session.scale(ctx, etcd, size), etcd)
		})
	command.Flags().Int32Var(&replicas, "replicas", 0, "the number of members. 0: that before the hibernation")

	return command
}

// scale sets the replicas and requests the reconciliation with one write.
func (s *session) scale(ctx context.Context, etcd *druidv1alpha1.Etcd, replicas int32) error {
	before := etcd.DeepCopy()
	etcd.Spec.Replicas = replicas
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidv1alpha1.DruidOperationAnnotation, druidv1alpha1.DruidOperationReconcile)

	return explain(s.Patch(ctx, etcd, client.MergeFrom(before)))
}

// recorded reads the record of the operator. It is empty if nothing was rolled out yet.
func (s *session) recorded(ctx context.Context, etcd *druidv1alpha1.Etcd) (state.State, error) {
	resource := &resourcesv1alpha1.ManagedResource{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, resource); err != nil {
		return state.State{}, explain(client.IgnoreNotFound(err))
	}

	return state.Decode(resource.Annotations)
}
