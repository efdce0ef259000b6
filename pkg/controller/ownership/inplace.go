// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"fmt"
	"maps"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NetworkLabels are the labels with which the NetworkPolicies of Gardener allow a pod to connect to etcds and sidecars. The etcds are those of shoots
// and of the virtual garden. The chart sets the labels on its pods. gardenlet and gardener-operator set only one of them on the pods of etcd-druid.
func NetworkLabels() map[string]string {
	labels := map[string]string{}
	for _, etcds := range []string{v1beta1constants.LabelNetworkPolicyShootNamespaceAlias, "garden-virtual-garden"} {
		for _, role := range []string{"main", "events"} {
			for _, port := range []int32{2379, 8080} {
				labels[gardenerutils.NetworkPolicyLabel(etcds+"-etcd-"+role+"-client", port)] = v1beta1constants.LabelNetworkPolicyAllowed
			}
		}
	}

	return labels
}

// setInPlace finds the pod of this process among the pods of the Deployment of gardenlet's etcd-druid.
func (g *Guard) setInPlace(pods []corev1.Pod) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.inPlace = nil
	for i := range pods {
		if pods[i].Name == g.Hostname {
			g.inPlace = &pods[i]
		}
	}
}

// AllowNetwork adds the NetworkLabels to the pod of this process if the last check found it in the Deployment of gardenlet's etcd-druid. The
// ReplicaSet keeps the pod, because its selector has none of these labels.
func (g *Guard) AllowNetwork(ctx context.Context) error {
	g.lock.Lock()
	pod := g.inPlace
	g.lock.Unlock()
	if pod == nil {
		return nil
	}
	labeled := pod.DeepCopy()
	for key, value := range NetworkLabels() {
		metav1.SetMetaDataLabel(&labeled.ObjectMeta, key, value)
	}
	if maps.Equal(labeled.Labels, pod.Labels) {
		return nil
	}
	if err := g.Client.Patch(ctx, labeled, client.MergeFrom(pod)); err != nil {
		return fmt.Errorf("adding labels to pod %s, which the chart must permit with additionalServiceAccounts: %w", client.ObjectKeyFromObject(pod), err)
	}

	return nil
}
