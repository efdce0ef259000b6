// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// etcdHelper returns the image of etcd-helper. Without one in the configuration it is the image of the operator's own pod. gardenlet does
// not know the setting when it runs the operator in place of etcd-druid. Image is empty if that pod cannot be read.
func etcdHelper(ctx context.Context, reader client.Reader, log logr.Logger, config configv1alpha1.EtcdHelperConfiguration) target.EtcdHelper {
	found := target.EtcdHelper{Image: config.Image, PullSecrets: config.ImagePullSecrets}
	if found.Image != "" {
		return found
	}
	pod, err := ownPod(ctx, reader)
	if err != nil {
		log.Error(err, "No restore can be verified: set etcdHelper.image in the configuration to the image of the operator")

		return found
	}
	found.Image = pod.Spec.Containers[0].Image
	if found.PullSecrets == nil {
		found.PullSecrets = pod.Spec.ImagePullSecrets
	}

	return found
}

// ownPod returns the pod of this process. Its name is the host name.
func ownPod(ctx context.Context, reader client.Reader) (*corev1.Pod, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host name: %w", err)
	}
	namespace := ownNamespace()
	if namespace == "" {
		return nil, errors.New("the operator does not run in a pod")
	}
	pod := &corev1.Pod{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		return nil, fmt.Errorf("reading the pod of the operator: %w", err)
	}
	if len(pod.Spec.Containers) != 1 {
		return nil, fmt.Errorf("pod %s has %d containers, so that the image of the operator is not known", name, len(pod.Spec.Containers))
	}

	return pod, nil
}
