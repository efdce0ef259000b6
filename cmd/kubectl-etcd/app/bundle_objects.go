// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

func inNamespace(etcd *druidv1alpha1.Etcd) client.InNamespace {
	return client.InNamespace(etcd.Namespace)
}

// addObjects adds the objects of the cluster, and returns its pods.
func (b *bundle) addObjects(ctx context.Context, withConfigMap bool) []corev1.Pod {
	b.addYAML("etcd.yaml", b.etcd.DeepCopy())
	resource := &resourcesv1alpha1.ManagedResource{}
	if b.addNamed(ctx, "managedresource.yaml", helper.ManagedResourceName(b.etcd), resource) {
		b.addRecord(resource.Annotations)
	}
	b.addNamed(ctx, "statefulset.yaml", helper.StatefulSetName(b.etcd), &appsv1.StatefulSet{})
	if withConfigMap {
		b.addNamed(ctx, "configmap.yaml", helper.ConfigMapName(b.etcd), &corev1.ConfigMap{})
	}
	pods := &corev1.PodList{}
	for name, list := range map[string]client.ObjectList{
		"pods.yaml": pods, "persistentvolumeclaims.yaml": &corev1.PersistentVolumeClaimList{}, "leases.yaml": &coordinationv1.LeaseList{},
		"services.yaml": &corev1.ServiceList{}, "jobs.yaml": &batchv1.JobList{}, "poddisruptionbudgets.yaml": &policyv1.PodDisruptionBudgetList{},
	} {
		b.addList(ctx, name, list, func(client.Object) bool { return true }, client.MatchingLabels{druidv1alpha1.LabelPartOfKey: b.etcd.Name})
	}
	b.addList(ctx, "etcdopstasks.yaml", &druidv1alpha1.EtcdOpsTaskList{}, func(object client.Object) bool {
		task := object.(*druidv1alpha1.EtcdOpsTask)

		return task.Spec.EtcdName != nil && *task.Spec.EtcdName == b.etcd.Name
	})
	b.addList(ctx, "etcdcopybackupstasks.yaml", &druidv1alpha1.EtcdCopyBackupsTaskList{}, func(client.Object) bool { return true })
	b.addList(ctx, "events.yaml", &corev1.EventList{}, b.concerns)

	return pods.Items
}

// concerns reports whether an event is about the Etcd or one of its objects.
func (b *bundle) concerns(object client.Object) bool {
	name := object.(*corev1.Event).InvolvedObject.Name

	return name == b.etcd.Name || name == helper.ManagedResourceName(b.etcd) || strings.HasPrefix(name, b.etcd.Name+"-") ||
		strings.HasPrefix(name, helper.VolumeClaimTemplateName(b.etcd)+"-")
}

// addNamed reads an object and adds it. It returns false if the object does not exist or cannot be read.
func (b *bundle) addNamed(ctx context.Context, file, name string, object client.Object) bool {
	err := b.Get(ctx, client.ObjectKey{Namespace: b.etcd.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) || !b.note(file, err) {
		return false
	}
	b.addYAML(file, object.DeepCopyObject().(client.Object))

	return true
}

// addList reads objects and adds those for which the function returns true.
func (b *bundle) addList(ctx context.Context, file string, list client.ObjectList, isOf func(client.Object) bool, options ...client.ListOption) {
	if !b.note(file, b.List(ctx, list, append(options, inNamespace(b.etcd))...)) {
		return
	}
	var objects []client.Object
	_ = meta.EachListItem(list.DeepCopyObject(), func(item runtime.Object) error {
		if object := item.(client.Object); isOf(object) {
			objects = append(objects, object)
		}

		return nil
	})
	b.addYAML(file, objects...)
}

// addYAML adds objects as one file. It changes them.
func (b *bundle) addYAML(file string, objects ...client.Object) {
	text := &bytes.Buffer{}
	for _, object := range objects {
		report.Clean(object)
		if kind, err := apiutil.GVKForObject(object, b.Scheme()); err == nil {
			object.GetObjectKind().SetGroupVersionKind(kind)
		}
		manifest, err := b.redactor.Manifest(object)
		if !b.note(file, err) {
			continue
		}
		text.WriteString("---\n")
		text.Write(manifest)
	}
	if text.Len() > 0 {
		b.add(file, text.Bytes())
	}
}
