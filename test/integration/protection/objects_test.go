// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package protection_test

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
)

// protectedObject is one object of an Etcd.
type protectedObject struct {
	// name is the name in the table.
	name   string
	object client.Object
	// change is a merge patch that changes the content of the object.
	change string
}

// objectsOf returns one object of each kind that belongs to the Etcd, and one PersistentVolumeClaim with labels of old versions.
func objectsOf(name string) []protectedObject {
	managed := map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": name}
	meta := func(object string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: object, Labels: managed} }
	labelled := func(object string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: object, Labels: labels}
	}
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: managed}, Spec: pod}
	claim := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	snapshotted := meta(name + "-" + name + "-0")
	snapshotted.Finalizers = []string{"snapshot.storage.kubernetes.io/pvc-as-source-protection"}
	job := *pod.DeepCopy()
	job.RestartPolicy = corev1.RestartPolicyNever

	return []protectedObject{
		{"StatefulSet", &appsv1.StatefulSet{ObjectMeta: meta(name), Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: managed}, Template: template}}, `{"spec":{"replicas":0}}`},
		{"ControllerRevision", &appsv1.ControllerRevision{ObjectMeta: meta(name + "-1"), Data: runtime.RawExtension{Raw: []byte(`{}`)}, Revision: 1}, `{"revision":7}`},
		{"Pod", &corev1.Pod{ObjectMeta: meta(name + "-0"), Spec: pod}, `{"spec":{"activeDeadlineSeconds":1}}`},
		{"PersistentVolumeClaim", &corev1.PersistentVolumeClaim{ObjectMeta: snapshotted, Spec: claim}, `{"spec":{"volumeName":"another"}}`},
		{"PersistentVolumeClaim with older labels", &corev1.PersistentVolumeClaim{ObjectMeta: labelled(name+"-"+name+"-1", map[string]string{"instance": name}), Spec: claim}, `{"spec":{"volumeName":"another"}}`},
		{"ConfigMap", &corev1.ConfigMap{ObjectMeta: meta(name + "-config")}, `{"data":{"etcd.conf.yaml":"broken"}}`},
		{"Service", &corev1.Service{ObjectMeta: meta(name + "-client"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 2379}}}}, `{"spec":{"selector":{"app":"other"}}}`},
		{"PodDisruptionBudget", &policyv1.PodDisruptionBudget{ObjectMeta: meta(name), Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2))}}, `{"spec":{"minAvailable":0}}`},
		{"NetworkPolicy", &networkingv1.NetworkPolicy{ObjectMeta: meta(name + "-members")}, `{"spec":{"ingress":[{}]}}`},
		{"ServiceAccount", &corev1.ServiceAccount{ObjectMeta: meta(name)}, `{"automountServiceAccountToken":true}`},
		{"Role", &rbacv1.Role{ObjectMeta: meta(name)}, `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`},
		{"RoleBinding", &rbacv1.RoleBinding{ObjectMeta: meta(name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}, `{"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"mallory"}]}`},
		{"Lease", &coordinationv1.Lease{ObjectMeta: meta(name + "-0")}, `{"spec":{"holderIdentity":"1:Member"}}`},
		{"Job", &batchv1.Job{ObjectMeta: meta(name + "-compactor"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: job}}}, `{"spec":{"suspend":true}}`},
		{"connection Secret", &corev1.Secret{ObjectMeta: meta(name + "-connection")}, `{"data":{"ca.crt":""}}`},
		{"ManagedResource", &resourcesv1alpha1.ManagedResource{ObjectMeta: labelled("druid-"+name, map[string]string{"origin": "gardener-extension-etcd-druid"}), Spec: resourcesv1alpha1.ManagedResourceSpec{Class: new("seed"), SecretRefs: []corev1.LocalObjectReference{{Name: "payload"}}}}, `{"spec":{"keepObjects":true}}`},
		{"Secret of the ManagedResource", &corev1.Secret{ObjectMeta: labelled("managedresource-druid-"+name, map[string]string{"origin": "gardener-extension-etcd-druid", "app.kubernetes.io/part-of": name})}, `{"data":{"x":""}}`},
		{"issued Secret", &corev1.Secret{ObjectMeta: labelled(name+"-client-ca", map[string]string{"managed-by": "secrets-manager", "manager-identity": "etcd-druid-" + name})}, `{"data":{"ca.crt":""}}`},
	}
}

// unprotectedObjects returns objects with similar labels that do not belong to an Etcd.
func unprotectedObjects() []protectedObject {
	claim := objectsOf("main")[3].object.(*corev1.PersistentVolumeClaim).Spec
	other := map[string]string{"app": "other"}
	deleted := map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "gone"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: other}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}

	return []protectedObject{
		{"StatefulSet of another owner", &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: other}, Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: other}, Template: template}}, `{"spec":{"replicas":0}}`},
		{"PersistentVolumeClaim of another owner", &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "main-main-x0"}, Spec: claim}, `{"spec":{"volumeName":"another"}}`},
		{"ConfigMap of a deleted Etcd", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "gone-config", Labels: deleted}}, `{"data":{"a":"b"}}`},
		{"ManagedResource of another owner", &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: "druid-other", Labels: map[string]string{"origin": "gardener"}}, Spec: resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "payload"}}}}, `{"spec":{"keepObjects":true}}`},
		{"Secret of another secrets manager", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other-ca", Labels: map[string]string{"managed-by": "secrets-manager", "manager-identity": "gardenlet"}}}, `{"data":{"ca.crt":""}}`},
	}
}

// attempt is a request that each user of the table sends.
type attempt struct {
	name   string
	object client.Object
	// patch is a merge patch of the object or the subresource. Empty: the request deletes the object.
	patch, subresource string
	// everywhere is true if the request deletes all objects of this kind that belong to the Etcd.
	everywhere bool
}

// attempts returns requests that delete each object, remove its labels or change it, and further requests.
func attempts() []attempt {
	var all []attempt

	for _, p := range append(objectsOf("main"), unprotectedObjects()...) {
		all = append(all,
			attempt{name: "delete the " + p.name, object: p.object},
			attempt{name: "remove the labels of the " + p.name, object: p.object, patch: `{"metadata":{"labels":null}}`},
			attempt{name: "change the " + p.name, object: p.object, patch: p.change})

		if _, ok := p.object.(*appsv1.StatefulSet); ok {
			all = append(all, attempt{name: "scale the " + p.name, object: p.object, patch: `{"spec":{"replicas":2}}`, subresource: "scale"})
		}
	}

	pod, claim := objectsOf("main")[2].object, objectsOf("main")[3].object

	return append(all,
		attempt{name: "delete all Pods in one request", object: pod, everywhere: true},
		attempt{name: "delete all PersistentVolumeClaims in one request", object: claim, everywhere: true},
		attempt{name: "annotate the Pod", object: pod, patch: `{"metadata":{"annotations":{"network":"10.0.0.1"}}}`},
		attempt{name: "annotate the PersistentVolumeClaim and add a finalizer", object: claim, patch: `{"metadata":{"annotations":{"driver":"x"},"finalizers":["kubernetes.io/pvc-protection","snapshot.storage.kubernetes.io/pvc-as-source-protection","example.org/snapshot"]}}`},
		attempt{name: "remove all finalizers of the PersistentVolumeClaim", object: claim, patch: `{"metadata":{"finalizers":null}}`},
		attempt{name: "remove the finalizer of a driver from the PersistentVolumeClaim", object: claim, patch: `{"metadata":{"finalizers":["kubernetes.io/pvc-protection"]}}`},
		attempt{name: "move the Pod to another Etcd", object: pod, patch: `{"metadata":{"labels":{"app.kubernetes.io/part-of":"other"}}}`},
		attempt{name: "move the Pod to another owner", object: pod, patch: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"b"}]}}`},
		attempt{name: "move the StatefulSet of another owner to the Etcd", object: unprotectedObjects()[0].object, patch: `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"etcd-druid","app.kubernetes.io/part-of":"main"}}}`},
		attempt{name: "update the status of the Pod", object: pod, patch: `{"status":{"message":"x"}}`, subresource: "status"},
		attempt{name: "change the Lease of an Etcd with externally managed members", object: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "external-0"}}, patch: `{"spec":{"holderIdentity":"2:Member"}}`},
		attempt{name: "change the ConfigMap of an Etcd with externally managed members", object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "external-config"}}, patch: `{"data":{"a":"b"}}`},
	)
}
