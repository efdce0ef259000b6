// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// configChecksum is the checksum of a configuration, as the predecessor computes it.
func configChecksum(configMap *corev1.ConfigMap) (string, error) {
	return checksum(configMap.Data)
}

// annotateRendering puts the checksum of all objects, without this annotation, on the StatefulSet.
func annotateRendering(statefulSet *appsv1.StatefulSet, objects []client.Object) error {
	rendering, err := checksum(objects)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&statefulSet.ObjectMeta, etcdcluster.RenderingAnnotation, rendering)

	return nil
}

// checksum is the SHA-256 of the JSON form, in hex.
func checksum(value any) (string, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding %T for its checksum: %w", value, err)
	}
	sum := sha256.Sum256(encoded)

	return hex.EncodeToString(sum[:]), nil
}
