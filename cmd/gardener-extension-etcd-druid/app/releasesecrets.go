// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	extensionscmdcontroller "github.com/gardener/gardener/extensions/pkg/controller/cmd"
	"github.com/gardener/gardener/pkg/logger"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/secret"
)

const (
	// podPeriod is the time between two checks whether the pods of the operator have ended.
	podPeriod = 2 * time.Second
	// podTimeout is how long the pods of the operator may take to end.
	podTimeout = 3 * time.Minute
)

// newReleaseSecretsCommand returns the command that the chart runs before its uninstallation.
func newReleaseSecretsCommand(ctx context.Context) *cobra.Command {
	rest := &extensionscmdcontroller.RESTOptions{}
	deployment, namespaces := client.ObjectKey{}, []string(nil)
	cmd := &cobra.Command{
		Use:   "release-secrets",
		Short: "Stop the operator and remove its finalizers from Secrets, before it is uninstalled",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			logf.SetLogger(logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON))
			if err := rest.Complete(); err != nil {
				return err
			}
			c, err := client.New(rest.Completed().Config, client.Options{Scheme: NewScheme()})
			if err != nil {
				return fmt.Errorf("setting up the client: %w", err)
			}

			return releaseSecrets(logf.IntoContext(ctx, logf.Log.WithName("release-secrets")), c, deployment, namespaces)
		},
	}
	rest.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&deployment.Namespace, "namespace", ownNamespace(), "Namespace of the operator's Deployment.")
	cmd.Flags().StringSliceVar(&namespaces, "watch-namespaces", nil, "Namespaces that the operator watches. Empty: all.")
	cmd.Flags().StringVar(&deployment.Name, "deployment", Name, "Name of the operator's Deployment. It is scaled down, because the operator would add the finalizers again.")

	return cmd
}

// releaseSecrets scales the Deployment of the operator down, and waits until its pods have ended. Then it removes the finalizers of the
// operator from all Secrets of the namespaces. No namespaces: of all. It releases nothing and returns nil if none of the namespaces exists any
// more. It can be repeated after each failure.
func releaseSecrets(ctx context.Context, c client.Client, deployment client.ObjectKey, namespaces []string) error {
	if err := stopOperator(ctx, c, deployment); err != nil {
		return err
	}
	namespaces, err := existingNamespaces(ctx, c, namespaces)
	var noNamespace noNamespaceError
	if errors.As(err, &noNamespace) {
		logf.FromContext(ctx).Info("No Secrets are released", "reason", err.Error())

		return nil
	}
	if err != nil {
		return err
	}
	_, err = c.RESTMapper().RESTMapping(druidv1alpha1.SchemeGroupVersion.WithKind("EtcdCopyBackupsTask").GroupKind())
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("finding EtcdCopyBackupsTasks: %w", err)
	}
	released, err := (&secret.Reconciler{Client: c, Reader: c, CopyTasks: err == nil}).ReleaseAll(ctx, namespaces...)
	if err != nil {
		return err
	}
	logf.FromContext(ctx).Info("Secrets are not protected any more", "secrets", released)

	return nil
}

// stopOperator scales a Deployment down and waits until its pods have ended. A Deployment that does not exist has none.
func stopOperator(ctx context.Context, c client.Client, key client.ObjectKey) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	scale := &autoscalingv1.Scale{}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.SubResource("scale").Get(ctx, deployment, scale); err != nil || scale.Spec.Replicas == 0 {
			return err
		}
		scale.Spec.Replicas = 0

		return c.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale))
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("scaling Deployment %s down: %w", key, err)
	}
	selector, err := labels.Parse(scale.Status.Selector)
	if err != nil {
		return fmt.Errorf("reading the selector of Deployment %s: %w", key, err)
	}
	pods := &corev1.PodList{}
	if err := wait.PollUntilContextTimeout(ctx, podPeriod, podTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.List(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabelsSelector{Selector: selector})
		pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { // evicted pods stay
			return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		})

		return err == nil && len(pods.Items) == 0, err
	}); err != nil {
		return fmt.Errorf("waiting until the %d pods of Deployment %s have ended: %w", len(pods.Items), key, err)
	}

	return nil
}
