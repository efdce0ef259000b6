// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// configFileName is the key in the ConfigMap, and the file that the sidecar reads.
const configFileName = "etcd.conf.yaml"

// configMap contains the etcd configuration of all members. The sidecar completes it for its member, and etcd-wrapper reads it
// from the sidecar.
func configMap(v Values) (*corev1.ConfigMap, error) {
	config, err := yaml.Marshal(etcdConfigFor(v))
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of etcd: %w", err)
	}

	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: v.objectMeta(v.Names.ConfigMap, druidv1alpha1.ComponentNameConfigMap),
		Data:       map[string]string{configFileName: string(config)},
	}, nil
}
