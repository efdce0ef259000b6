// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

// protectionTimeout is how long the plugin waits until the API server has observed that the protection is disabled.
const protectionTimeout = 30 * time.Second

func (p *plugin) rotateCACommand() *cobra.Command {
	complete := false
	command := p.etcdCommand("rotate-ca", "Start a rotation of the CAs, or complete it with --complete",
		"Start a rotation of the CAs that the operator issues: all members and the connection Secret then trust the old and the new CAs.\n"+
			"Complete it with --complete when every client has read the connection Secret again. In the namespace of a shoot, the rotation\n"+
			"follows that of the shoot instead.",
		func(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd) error {
			value := druidv1alpha1.RotateCAStart
			if complete {
				value = druidv1alpha1.RotateCAComplete
			}

			return p.requested(session.annotate(ctx, etcd, map[string]string{druidv1alpha1.RotateCAAnnotation: value}), etcd)
		})
	command.Flags().BoolVar(&complete, "complete", false, "complete the rotation: members and clients then trust only the new CAs")

	return command
}

func (p *plugin) restoreCommand() *cobra.Command {
	unverified, revision := false, int64(0)
	command := p.etcdCommand("restore", "Restore a cluster without a healthy member from its backup store",
		"Restore a cluster without a healthy member from its backup store. The operator first verifies that the store restores the highest\n"+
			"known revision. It keeps the volumes until the restored cluster has a full snapshot. It ignores the request while a member is\n"+
			"healthy.",
		func(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd) error {
			annotations := map[string]string{druidv1alpha1.RestoreAnnotation: druidv1alpha1.RestoreFromStore}
			switch {
			case unverified && revision > 0:
				return usageError{fmt.Errorf("--unverified does not compare revisions; omit it, or --accept-revision")}
			case unverified:
				annotations[druidv1alpha1.RestoreAnnotation] = druidv1alpha1.RestoreFromStoreUnverified
			case revision > 0:
				annotations[druidv1alpha1.AcceptRevisionAnnotation] = strconv.FormatInt(revision, 10)
			}

			return p.requested(session.annotate(ctx, etcd, annotations), etcd)
		})
	command.Flags().BoolVar(&unverified, "unverified", false, "verify neither the store nor revisions: with an empty store, the result is an empty cluster")
	command.Flags().Int64Var(&revision, "accept-revision", 0, "the lowest revision that the store must restore; all later writes are lost")

	return command
}

// recoveryToken matches the token of an option in the condition QuorumRecoverable.
var recoveryToken = regexp.MustCompile(`token (([a-z]+)-[0-9a-f]{8})`)

func (p *plugin) recoverCommand() *cobra.Command {
	option := ""
	command := p.etcdCommand("recover", "Recover a cluster whose quorum is lost forever",
		"Print from which data the operator can recover a cluster whose quorum is lost forever, with the loss of each option, and\n"+
			"read a choice. The operator stops all members, and copies the data into the backup store before it deletes anything.",
		func(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd) error {
			condition := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeQuorumRecoverable)
			if condition == nil {
				return fmt.Errorf("etcd %s has no condition %s: its quorum is not lost forever", etcd.Name, druidv1alpha1.ConditionTypeQuorumRecoverable)
			}
			if _, err := fmt.Fprintln(p.Out, condition.Message); err != nil {
				return err
			}
			if condition.Reason == druidv1alpha1.ReasonRecoveryForbidden {
				return fmt.Errorf("etcd %s has the recovery policy Never: set spec.recoveryPolicy to Ask to choose an option", etcd.Name)
			}
			tokens := map[string]string{}
			for _, match := range recoveryToken.FindAllStringSubmatch(condition.Message, -1) {
				tokens[match[2]] = match[1]
			}
			names := slices.Sorted(maps.Keys(tokens))
			if option == "" && len(names) > 0 {
				_, _ = fmt.Fprintf(p.Out, "Recover from (%s, or nothing to stop): ", strings.Join(names, ", "))
				line, err := bufio.NewReader(p.In).ReadString('\n')
				if err != nil && !errors.Is(err, io.EOF) {
					return err
				}
				option = strings.TrimSpace(line)
			}
			if option == "" {
				return nil
			}
			token, found := tokens[option]
			if !found {
				return usageError{fmt.Errorf("option %q is not possible: the possible options are %q", option, names)}
			}

			return p.requested(session.annotate(ctx, etcd, map[string]string{druidv1alpha1.RecoverAnnotation: token}), etcd)
		})
	command.Flags().StringVar(&option, "option", "", "the data to recover from, members or store, without a question")

	return command
}

func (p *plugin) acceptRevisionCommand() *cobra.Command {
	revision := int64(0)
	command := p.etcdCommand("accept-revision", "Accept the loss of writes after a rollback",
		"Accept the loss of writes: the operator continues with the lower revision, or a member without a volume starts with it.",
		func(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd) error {
			if revision <= 0 {
				return usageError{fmt.Errorf("--revision is required: the revision that the condition RevisionConfirmed or Reconciled names")}
			}

			return p.requested(session.annotate(ctx, etcd, map[string]string{druidv1alpha1.AcceptRevisionAnnotation: strconv.FormatInt(revision, 10)}), etcd)
		})
	command.Flags().Int64Var(&revision, "revision", 0, "the revision that is accepted; all later writes are lost")

	return command
}

func (p *plugin) skipFinalSnapshotCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "skip-final-snapshot", short: "Skip the snapshot before a hibernation, a deletion or a change of the store",
		long: "Skip the snapshot before a hibernation, a deletion, a scale-in, an upgrade of etcd or a change of the store, until require-final-snapshot.\n" +
			"The writes since the last snapshot are then only on the volumes.",
		key: druidv1alpha1.SkipFinalSnapshotAnnotation, value: "",
		done: "Final snapshots are skipped. Require them again with kubectl etcd require-final-snapshot %s",
	})
}

func (p *plugin) requireFinalSnapshotCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "require-final-snapshot", short: "Require final snapshots again", long: "Require final snapshots again after skip-final-snapshot.",
		key: druidv1alpha1.SkipFinalSnapshotAnnotation, remove: true,
		done: "Final snapshots of %s are required again",
	})
}

func (p *plugin) disablePeerTLSCommand() *cobra.Command {
	return p.markCommand(mark{
		use: "disable-peer-tls", short: "Confirm plaintext between the members",
		long: "Confirm that the members exchange their data in plaintext, when spec.etcd.peerUrlTls no longer names Secrets. Without the confirmation,\n" +
			"the operator rejects such a spec. Then run kubectl etcd reconcile.",
		key: druidv1alpha1.PeerTLSAnnotation, value: druidv1alpha1.PeerTLSOff,
		done: "Confirmed. Roll it out with kubectl etcd reconcile %s",
	})
}

func (p *plugin) releaseStoreCommand() *cobra.Command {
	return p.etcdCommand("release-store", "Confirm another backup store of a running cluster",
		"Delete the record of the backup store of a cluster, so that the operator accepts another store. Use it when the new store contains a\n"+
			"copy of the snapshots, or to release a store that the spec does not name any more. Then run kubectl etcd reconcile.",
		func(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd) error {
			resource := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}}
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, druidv1alpha1.ManagedResourceAnnotationStore)
			err := session.unprotected(ctx, etcd, func(ctx context.Context) error {
				return session.Patch(ctx, resource, client.RawPatch("application/merge-patch+json", patch))
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Out, "Released the store. Roll out the new one with kubectl etcd reconcile %s.\n", etcd.Name)

			return err
		})
}

func (p *plugin) replaceVolumeCommand() *cobra.Command {
	member := -1
	command := p.etcdCommand("replace-volume", "Give a member a new volume",
		"Delete the volume and the pod of a member whose data is corrupt. The member then joins with a new volume. All other members must be\n"+
			"healthy.",
		func(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd) error {
			if err := isReplaceable(etcd, member); err != nil {
				return err
			}
			objects := []client.Object{
				&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: helper.ClaimName(etcd, member)}},
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: helper.PodName(etcd, member)}},
			}
			err := session.unprotected(ctx, etcd, func(ctx context.Context) error {
				for _, object := range objects {
					if err := client.IgnoreNotFound(session.Delete(ctx, object)); err != nil {
						return err
					}
				}

				return nil
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Out, "Deleted claim %s and pod %s. Follow the new volume with kubectl etcd status %s.\n", objects[0].GetName(), objects[1].GetName(), etcd.Name)

			return err
		})
	command.Flags().IntVar(&member, "member", -1, "the ordinal of the member, for example 2 for main-2")

	return command
}

// isReplaceable returns an error if the quorum or the data might be lost.
func isReplaceable(etcd *druidv1alpha1.Etcd, member int) error {
	if member < 0 || member >= int(etcd.Spec.Replicas) {
		return usageError{fmt.Errorf("--member is %d, and has to be an ordinal from 0 to %d", member, etcd.Spec.Replicas-1)}
	}
	if etcd.Spec.Replicas < 3 {
		return fmt.Errorf("etcd %s has %d members: the only copy of the data would be deleted; use kubectl etcd restore if no member is healthy", etcd.Name, etcd.Spec.Replicas)
	}
	healthy := map[string]bool{}
	for _, known := range etcd.Status.Members {
		healthy[known.Name] = known.Status == druidv1alpha1.EtcdMemberStatusReady
	}
	for ordinal := range int(etcd.Spec.Replicas) {
		if name := helper.MemberName(etcd, ordinal); ordinal != member && !healthy[name] {
			return fmt.Errorf("member %s is not healthy: replace a volume only while all other members are healthy", name)
		}
	}

	return nil
}

// unprotected calls a function while the protection of the objects is disabled. The API server observes the annotation after some
// seconds, and rejects the requests before.
func (s *session) unprotected(ctx context.Context, etcd *druidv1alpha1.Etcd, change func(context.Context) error) error {
	if _, already := etcd.Annotations[druidv1alpha1.DisableEtcdComponentProtectionAnnotation]; !already {
		if err := s.mark(ctx, etcd, mark{key: druidv1alpha1.DisableEtcdComponentProtectionAnnotation, value: "true"}); err != nil {
			return err
		}
		defer func() {
			// Also after an interruption.
			_ = s.mark(context.WithoutCancel(ctx), etcd, mark{key: druidv1alpha1.DisableEtcdComponentProtectionAnnotation, remove: true})
		}()
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, taskPause, protectionTimeout, true, func(ctx context.Context) (bool, error) {
		last = change(ctx)
		if apierrors.IsForbidden(last) {
			return false, nil
		}

		return last == nil, last
	})
	if err != nil && last != nil {
		return explain(last)
	}

	return err
}
