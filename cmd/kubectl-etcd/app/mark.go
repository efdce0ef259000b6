// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// mark is a subcommand that sets or removes an annotation of an Etcd.
type mark struct {
	use, short, long string
	// key and value of the annotation.
	key, value string
	// remove takes it away.
	remove bool
	// done is what is said afterwards; %s is the name of the Etcd.
	done string
}

func (p *plugin) reconcileCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "reconcile", short: "Have the operator carry out the spec now",
		long: "Have the operator carry out the spec now: what was changed since it was last carried out is rolled out, with the images and\ndefaults of the running operator.",
		key:  druidv1alpha1.DruidOperationAnnotation, value: druidv1alpha1.DruidOperationReconcile,
		done: "Asked for. Follow it with kubectl etcd status %s",
	})
}

func (p *plugin) suspendCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "suspend", short: "Have the operator leave the spec alone",
		long: "Have the operator leave the spec alone until resume. The health is still watched, and Kubernetes still restarts pods.",
		key:  druidv1alpha1.SuspendEtcdSpecReconcileAnnotation, value: "true",
		done: "The spec is not carried out any more. End that with kubectl etcd resume %s",
	})
}

func (p *plugin) resumeCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "resume", short: "End what suspend began", long: "End what suspend began: the spec is carried out again.",
		key: druidv1alpha1.SuspendEtcdSpecReconcileAnnotation, remove: true,
		done: "The spec of %s is carried out again",
	})
}

func (p *plugin) unprotectCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "unprotect", short: "Let everybody with the rights change the objects of a cluster",
		long: "Let everybody with the rights change and delete the objects of a cluster, until protect. The operator puts back what it manages\nunless the spec is suspended too.",
		key:  druidv1alpha1.DisableEtcdComponentProtectionAnnotation, value: "true",
		done: "Everybody may change its objects now. End that with kubectl etcd protect %s",
	})
}

func (p *plugin) protectCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "protect", short: "End what unprotect began", long: "End what unprotect began: nobody but the operator changes the objects of the cluster.",
		key: druidv1alpha1.DisableEtcdComponentProtectionAnnotation, remove: true,
		done: "The objects of %s are protected again",
	})
}

func (p *plugin) markCommand(m mark) *cobra.Command {
	return &cobra.Command{
		Use: m.use + " [NAME]", Short: m.short, Long: m.long,
		Args: atMostOneName, ValidArgsFunction: p.completeNames,
		RunE: func(command *cobra.Command, args []string) error {
			session, err := p.connect()
			if err != nil {
				return err
			}
			etcd, _, err := session.etcd(command.Context(), args)
			if err != nil {
				return err
			}
			if err := session.mark(command.Context(), etcd, m); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Out, m.done+".\n", etcd.Name)

			return err
		},
	}
}

// mark patches the annotation, and nothing where it is there already.
func (s *session) mark(ctx context.Context, etcd *druidv1alpha1.Etcd, m mark) error {
	before := etcd.DeepCopy()
	if m.remove {
		delete(etcd.Annotations, m.key)
	} else {
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, m.key, m.value)
	}

	return explain(s.Patch(ctx, etcd, client.MergeFrom(before)))
}
