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

// Decide says whether a request is allowed, given the Etcds of the object's namespace. Where it is not, the reason tells what
// to do instead. The first that applies decides:
//
//  1. the user is trusted, or is the operator, or exempt
//  2. the object is part of none of the Etcds
//  3. its Etcd is annotated to be without protection
//  4. somebody else runs the members, and the object is one of those that they bring along
//  5. a sidecar writes a lease of its Etcd
//  6. a drainer deletes a pod
//  7. something is noted on a pod or a volume claim that changes neither what it is nor what it belongs to
//  8. it is refused
func Decide(accounts Accounts, request Request, etcds []druidv1alpha1.Etcd) (allowed bool, reason string) {
	if accounts.Trust(request.User) {
		return true, "the user may change everything"
	}

	i := slices.IndexFunc(etcds, func(etcd druidv1alpha1.Etcd) bool { return request.isOf(&etcd) })
	if i < 0 {
		return true, "not part of an Etcd"
	}

	etcd := &etcds[i]

	switch {
	case metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.DisableEtcdComponentProtectionAnnotation):
		return true, "the Etcd is annotated with " + druidv1alpha1.DisableEtcdComponentProtectionAnnotation
	case !helper.ManagesPods(etcd) && slices.Contains(broughtAlong, request.Resource):
		return true, "somebody else runs the members"
	case request.isLeaseWrittenBySidecar(etcd):
		return true, "the sidecar writes its lease"
	case request.Resource == "pods" && request.Deletion && slices.Contains(accounts.Drainers, request.User.Username):
		return true, "a drainer deletes a pod"
	case request.isNote():
		return true, "something is noted on the object"
	}

	return false, fmt.Sprintf("this is part of Etcd %s/%s and changed by its operator only: change the Etcd instead, or annotate it with %s to do without this protection",
		etcd.Namespace, etcd.Name, druidv1alpha1.DisableEtcdComponentProtectionAnnotation)
}

// broughtAlong are the kinds that are not the operator's where somebody else runs the members.
var broughtAlong = []string{"serviceaccounts", "roles", "rolebindings", "leases", "poddisruptionbudgets", "services"}

func (r Request) isLeaseWrittenBySidecar(etcd *druidv1alpha1.Etcd) bool {
	return r.Resource == "leases" && !r.Deletion && r.keepsIdentity() &&
		r.User.Username == fmt.Sprintf("system:serviceaccount:%s:%s", etcd.Namespace, helper.ServiceAccountName(etcd))
}

// isNote is true for annotations and finalizers of others, by which drivers of networks and storage work, under accounts that
// nobody knows beforehand.
func (r Request) isNote() bool {
	return (r.Resource == "pods" || r.Resource == "persistentvolumeclaims") && !r.Deletion && r.keepsIdentity() &&
		reflect.DeepEqual(r.Before.Spec, r.After.Spec)
}

// keepsIdentity is true where what an object is and belongs to stays as it is.
func (r Request) keepsIdentity() bool {
	return apiequality.Semantic.DeepEqual(r.Before.Labels, r.After.Labels) &&
		apiequality.Semantic.DeepEqual(r.Before.OwnerReferences, r.After.OwnerReferences) &&
		!slices.ContainsFunc(r.Before.Finalizers, func(finalizer string) bool {
			return isProtective(finalizer) && !slices.Contains(r.After.Finalizers, finalizer)
		})
}

// isProtective is true for the finalizers of the operator, and those by which the controllers of the cluster keep an object
// until it may go. Others are taken away by those who put them there.
func isProtective(finalizer string) bool {
	return slices.Contains(finalizersOfCluster, finalizer) || strings.HasPrefix(finalizer, druidv1alpha1.GroupName+"/")
}

var finalizersOfCluster = []string{"kubernetes.io/pvc-protection", batchv1.JobTrackingFinalizer, metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}
