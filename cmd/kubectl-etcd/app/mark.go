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
		use: "reconcile", short: "Request that the operator rolls out the spec",
		long: "Request that the operator rolls out the spec: all changes since the last rollout, with the images and defaults of the running\noperator.",
		key:  druidv1alpha1.DruidOperationAnnotation, value: druidv1alpha1.DruidOperationReconcile,
		done: "Requested. Follow it with kubectl etcd status %s",
	})
}

func (p *plugin) suspendCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "suspend", short: "Suspend the reconciliation of the spec",
		long: "Suspend the reconciliation of the spec until resume. The operator still reports the health, and Kubernetes still restarts pods.",
		key:  druidv1alpha1.SuspendEtcdSpecReconcileAnnotation, value: "true",
		done: "Suspended the reconciliation of the spec. Resume it with kubectl etcd resume %s",
	})
}

func (p *plugin) resumeCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "resume", short: "Resume the reconciliation of the spec", long: "Resume the reconciliation of the spec after suspend.",
		key: druidv1alpha1.SuspendEtcdSpecReconcileAnnotation, remove: true,
		done: "Resumed the reconciliation of the spec of %s",
	})
}

func (p *plugin) unprotectCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "unprotect", short: "Disable the protection of the objects of a cluster",
		long: "Disable the protection of the objects of a cluster until protect: every user with the permissions may change and delete them.\nThe operator reverts changes of the objects that it manages unless the reconciliation of the spec is suspended.",
		key:  druidv1alpha1.DisableEtcdComponentProtectionAnnotation, value: "true",
		done: "Disabled the protection of the objects. Enable it with kubectl etcd protect %s",
	})
}

func (p *plugin) protectCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "protect", short: "Enable the protection of the objects of a cluster", long: "Enable the protection of the objects of a cluster after unprotect: only the operator may change them.",
		key: druidv1alpha1.DisableEtcdComponentProtectionAnnotation, remove: true,
		done: "The objects of %s are protected again",
	})
}

func (p *plugin) markCommand(m mark) *cobra.Command {
	return p.etcdCommand(m.use, m.short, m.long, func(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd) error {
		if err := session.mark(ctx, etcd, m); err != nil {
			return err
		}
		_, err := fmt.Fprintf(p.Out, m.done+".\n", etcd.Name)

		return err
	})
}

// etcdCommand is a subcommand for one Etcd, which the function receives as it is stored.
func (p *plugin) etcdCommand(use, short, long string, run func(context.Context, *session, *druidv1alpha1.Etcd) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " [NAME]", Short: short, Long: long,
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

			return run(command.Context(), session, etcd)
		},
	}
}

// requested prints that a request was written, unless there is an error.
func (p *plugin) requested(err error, etcd *druidv1alpha1.Etcd) error {
	if err == nil {
		_, err = fmt.Fprintf(p.Out, "Requested. Follow it with kubectl etcd status %s.\n", etcd.Name)
	}

	return err
}

// mark patches the annotation. It writes nothing if the Etcd already has it.
func (s *session) mark(ctx context.Context, etcd *druidv1alpha1.Etcd, m mark) error {
	if !m.remove {
		return s.annotate(ctx, etcd, map[string]string{m.key: m.value})
	}
	before := etcd.DeepCopy()
	delete(etcd.Annotations, m.key)

	return explain(s.Patch(ctx, etcd, client.MergeFrom(before)))
}

// annotate sets annotations with one write.
func (s *session) annotate(ctx context.Context, etcd *druidv1alpha1.Etcd, annotations map[string]string) error {
	before := etcd.DeepCopy()
	for key, value := range annotations {
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, key, value)
	}

	return explain(s.Patch(ctx, etcd, client.MergeFrom(before)))
}
