// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// RequestFor returns what to read of an Etcd before a plan is computed for it. The plan of a multi-member cluster depends on the endpoint status of its
// members. The members that run count too: a spec that is not rolled out says nothing about them. So do those that a scale-in has removed.
func RequestFor(etcd *druidv1alpha1.Etcd) Request {
	isScaling := slices.ContainsFunc(etcd.Status.Conditions, func(condition druidv1alpha1.Condition) bool {
		return condition.Type == druidv1alpha1.ConditionTypeScaleOperationComplete && condition.Status == druidv1alpha1.ConditionFalse
	})
	isMultiMember := (max(etcd.Spec.Replicas, etcd.Status.Replicas) > 1 || isScaling) && helper.ManagesPods(etcd)
	// The leader takes the snapshot before the members stop.
	isStopping := helper.IsHibernated(etcd) && helper.IsStoreConfigured(etcd)
	// The backup store does not replace the data of a healthy member, also of a single one.
	_, restores := etcd.Annotations[druidv1alpha1.RestoreAnnotation]
	isRunning := helper.ManagesPods(etcd) && !helper.IsHibernated(etcd)
	joins := (etcd.Spec.Etcd.BootstrapWithExistingCluster != nil || len(etcdcluster.LeavingExisting(etcd)) > 0) && helper.ManagesPods(etcd)

	return Request{
		Gardener: true, QueryEtcd: isMultiMember || isStopping || joins || restores, QueryExisting: joins, Volumes: isMultiMember || isRunning,
		StorageClasses: helper.ManagesPods(etcd), RestoreVerification: restores || isMultiMember || isRunning && helper.IsStoreConfigured(etcd), Tasks: true,
		Events: true, Admission: true,
	}
}
