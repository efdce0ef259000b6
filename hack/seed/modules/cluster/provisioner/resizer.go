// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Annotations of claims and volumes with the name of the provisioner.
const (
	claimProvisionedBy  = "volume.kubernetes.io/storage-provisioner"
	volumeProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

// resizer sets the requested capacity in the status of volumes and claims. The directories have no size.
type resizer struct {
	client kubernetes.Interface
	name   string
}

// Run resizes until the context ends.
func (r resizer) Run(ctx context.Context) {
	factory := informers.NewSharedInformerFactory(r.client, time.Minute) // retries failed expansions
	resize := func(object any) {
		if claim, is := object.(*corev1.PersistentVolumeClaim); is && r.isRequested(claim) {
			if err := r.resize(ctx, claim); err != nil {
				fmt.Fprintf(os.Stderr, "provisioner: resizing claim %s/%s: %v\n", claim.Namespace, claim.Name, err)
			}
		}
	}

	if _, err := factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: resize, UpdateFunc: func(_, object any) { resize(object) },
	}); err != nil {
		fmt.Fprintln(os.Stderr, "provisioner: watching claims:", err)

		return
	}

	factory.Start(ctx.Done())
}

func (r resizer) isRequested(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[claimProvisionedBy] == r.name && claim.Status.Phase == corev1.ClaimBound &&
		claim.Spec.Resources.Requests.Storage().Cmp(*claim.Status.Capacity.Storage()) > 0
}

// resize updates the volume before the claim, as the resizers of CSI drivers do.
func (r resizer) resize(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume, err := r.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return err
	}

	if provisioner := volume.Annotations[volumeProvisionedBy]; provisioner != r.name {
		return fmt.Errorf("volume %s has the provisioner %q", volume.Name, provisioner)
	}

	size := claim.Spec.Resources.Requests.Storage().String()
	if _, err := r.client.CoreV1().PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"capacity":{"storage":%q}}}`, size), metav1.PatchOptions{}); err != nil {
		return err
	}

	_, err = r.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"status":{"capacity":{"storage":%q}}}`, size), metav1.PatchOptions{}, "status")

	return err
}
