// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// existingNamespaces returns the watched namespaces that exist and are not being deleted. In the others the operator has no rights, and one
// rejected watch would stop it for all namespaces. It returns a noNamespaceError if none is left. Without names, it returns none.
func existingNamespaces(ctx context.Context, reader client.Reader, names []string) ([]string, error) {
	var existing []string
	for _, name := range names {
		namespace := &corev1.Namespace{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("watchNamespaces: reading namespace %s: %w", name, err)
		}
		if err != nil || namespace.DeletionTimestamp != nil {
			logf.FromContext(ctx).Info("A watched namespace does not exist or is being deleted: restart the operator after you have created it", "namespace", name)

			continue
		}
		existing = append(existing, name)
	}
	if len(names) > 0 && len(existing) == 0 {
		return nil, noNamespaceError(names)
	}

	return existing, nil
}

// noNamespaceError is the error if none of the watched namespaces exists. Its elements are their names.
type noNamespaceError []string

// Error names the namespaces.
func (e noNamespaceError) Error() string {
	return fmt.Sprintf("watchNamespaces: none of the namespaces %s exists: create one, or change the list", strings.Join(e, ", "))
}
