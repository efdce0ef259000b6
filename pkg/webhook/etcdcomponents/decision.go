// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Decide returns whether a request is allowed, for the Etcds in the namespace of its object. If it is not, the reason states
// the remedy. The first matching rule decides:
//
//  1. The user is trusted, or is the operator, or is exempt: allowed.
//  2. The object belongs to none of the Etcds: allowed.
//  3. An annotation of the Etcd disables the protection: allowed.
//  4. The members are managed externally, and their manager provides objects of this kind: allowed.
//  5. A sidecar writes a Lease of its Etcd: allowed.
//  6. A drainer deletes a pod: allowed.
//  7. A metadata update of a pod or a PersistentVolumeClaim changes neither its spec nor its identity: allowed.
//  8. Otherwise: refused.
func Decide(accounts Accounts, request Request, etcds []druidv1alpha1.Etcd) (allowed bool, reason string) {
	if accounts.IsTrusted(request.User) {
		return true, "the user may change everything"
	}

	i := slices.IndexFunc(etcds, func(etcd druidv1alpha1.Etcd) bool { return request.isPartOf(&etcd) })
	if i < 0 {
		return true, "not part of an Etcd"
	}

	etcd := &etcds[i]

	switch {
	case metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.DisableEtcdComponentProtectionAnnotation):
		return true, "the Etcd is annotated with " + druidv1alpha1.DisableEtcdComponentProtectionAnnotation
	case !helper.ManagesPods(etcd) && slices.Contains(externallyManagedKinds, request.Resource):
		return true, "the members are managed externally"
	case request.isLeaseWrittenBySidecar(etcd):
		return true, "the sidecar writes its lease"
	case request.Resource == "pods" && request.Deletion && slices.Contains(accounts.Drainers, request.User.Username):
		return true, "a drainer deletes a pod"
	case request.isMetadataUpdate():
		return true, "something is noted on the object"
	}

	return false, fmt.Sprintf("this is part of Etcd %s/%s and changed by its operator only: change the Etcd instead, or annotate it with %s to do without this protection",
		etcd.Namespace, etcd.Name, druidv1alpha1.DisableEtcdComponentProtectionAnnotation)
}

// externallyManagedKinds are the kinds of objects that the manager of externally managed members provides.
var externallyManagedKinds = []string{"serviceaccounts", "roles", "rolebindings", "leases", "poddisruptionbudgets", "services"}

func (r Request) isLeaseWrittenBySidecar(etcd *druidv1alpha1.Etcd) bool {
	return r.Resource == "leases" && !r.Deletion && r.hasSameIdentity() &&
		r.User.Username == fmt.Sprintf("system:serviceaccount:%s:%s", etcd.Namespace, helper.ServiceAccountName(etcd))
}

// isMetadataUpdate is true for updates of annotations and of finalizers of other owners. Network and storage drivers write
// them, with accounts that the operator does not know.
func (r Request) isMetadataUpdate() bool {
	return (r.Resource == "pods" || r.Resource == "persistentvolumeclaims") && !r.Deletion && r.hasSameIdentity() &&
		reflect.DeepEqual(r.Before.Spec, r.After.Spec)
}

// hasSameIdentity is true if labels, owner references and protective finalizers are unchanged.
func (r Request) hasSameIdentity() bool {
	return apiequality.Semantic.DeepEqual(r.Before.Labels, r.After.Labels) &&
		apiequality.Semantic.DeepEqual(r.Before.OwnerReferences, r.After.OwnerReferences) &&
		!slices.ContainsFunc(r.Before.Finalizers, func(finalizer string) bool {
			return isProtective(finalizer) && !slices.Contains(r.After.Finalizers, finalizer)
		})
}

// isProtective is true for the finalizers of the operator, and for those with which the controllers of the cluster delay a
// deletion. The owners of other finalizers remove them.
func isProtective(finalizer string) bool {
	return slices.Contains(finalizersOfCluster, finalizer) || strings.HasPrefix(finalizer, druidv1alpha1.GroupName+"/")
}

var finalizersOfCluster = []string{"kubernetes.io/pvc-protection", batchv1.JobTrackingFinalizer, metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}
