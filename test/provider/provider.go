// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package provider implements the part of the backup workflow that an infrastructure extension has in Gardener, for tests and
// the local seed. It has controllers for BackupBuckets and BackupEntries of type `local`, which use the reconcilers and the
// generic actuator of the extension library. Buckets are directories of the node.
//
// What may not live here: anything that the operator needs.
package provider

import (
	"context"
	"fmt"

	"github.com/gardener/gardener/extensions/pkg/controller/backupbucket"
	"github.com/gardener/gardener/extensions/pkg/controller/backupentry"
	"github.com/gardener/gardener/extensions/pkg/controller/backupentry/genericactuator"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Type is spec.type of the BackupBuckets and BackupEntries.
const Type = "local"

// Options are the options of the provider.
type Options struct {
	// HostPath is the directory on the node that contains the buckets.
	HostPath string
	// Controller are the options of both controllers.
	Controller controller.Options
}

// AddToManager adds both controllers to a manager.
func AddToManager(mgr manager.Manager, options Options) error {
	if err := backupbucket.Add(mgr, backupbucket.AddArgs{
		Actuator:          bucketActuator{},
		ControllerOptions: options.Controller,
		Predicates:        backupbucket.DefaultPredicates(true),
		Type:              Type,
		// There is no gardenlet that requests each reconciliation.
		IgnoreOperationAnnotation: true,
	}); err != nil {
		return fmt.Errorf("adding the BackupBucket controller: %w", err)
	}
	if err := backupentry.Add(mgr, backupentry.AddArgs{
		Actuator:          genericactuator.NewActuator(mgr, delegate{hostPath: options.HostPath}),
		ControllerOptions: options.Controller,
		Predicates:        backupentry.DefaultPredicates(true),
		Type:              Type,
		// There is no gardenlet that requests each reconciliation.
		IgnoreOperationAnnotation: true,
	}); err != nil {
		return fmt.Errorf("adding the BackupEntry controller: %w", err)
	}
	return nil
}

// bucketActuator does nothing because the sidecar creates the directory of a bucket.
type bucketActuator struct{}

// Reconcile implements backupbucket.Actuator.
func (bucketActuator) Reconcile(context.Context, logr.Logger, *extensionsv1alpha1.BackupBucket) error {
	return nil
}

// Delete implements backupbucket.Actuator.
func (bucketActuator) Delete(context.Context, logr.Logger, *extensionsv1alpha1.BackupBucket) error {
	return nil
}

// delegate implements the infrastructure-specific part of the generic actuator.
type delegate struct{ hostPath string }

// GetETCDSecretData implements genericactuator.BackupEntryDelegate.
func (d delegate) GetETCDSecretData(_ context.Context, _ logr.Logger, _ *extensionsv1alpha1.BackupEntry, data map[string][]byte) (map[string][]byte, error) {
	data["hostPath"] = []byte(d.hostPath)
	return data, nil
}

// Delete implements genericactuator.BackupEntryDelegate. It keeps the snapshots.
func (delegate) Delete(context.Context, logr.Logger, *extensionsv1alpha1.BackupEntry) error {
	return nil
}
