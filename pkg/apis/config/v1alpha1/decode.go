// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Decode reads a configuration file, YAML or JSON, and applies the defaults. It is strict: it refuses unknown and duplicate
// keys, and names each of them with its path. Otherwise a misspelt setting would have no effect, and no error would report
// it. apiVersion and kind are required.
func Decode(data []byte) (*OperatorConfiguration, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the configuration's types: %w", err)
	}

	// Nothing is decoded "into": that would take the kind for granted.
	obj, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding %s OperatorConfiguration: %w", SchemeGroupVersion, err)
	}
	config, ok := obj.(*OperatorConfiguration)
	if !ok {
		return nil, fmt.Errorf("decoding %s OperatorConfiguration: got a %T", SchemeGroupVersion, obj)
	}
	SetDefaults(config)
	return config, nil
}
