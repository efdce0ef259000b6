// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package applicable_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/copybackups"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/payload"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// maxReconciliations is the largest number of reconciliations of one Etcd. Seven members that are added one after the other need fewer.
const maxReconciliations = 150

// config is the configuration of the operator. All objects that it can render are rendered.
var config = target.Config{
	AutoReconcile: true, LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath},
	Defaults: state.Defaults{
		ImageSets: map[string]state.Images{
			"3.4": {EtcdWrapper: "etcd-wrapper:3.4", BackupRestore: "etcdbrctl:3.4", Init: "init:1"}, "3.5": {EtcdWrapper: "etcd-wrapper:3.5", BackupRestore: "etcdbrctl:3.5", Init: "init:1"},
		},
		IPFamilies:         []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"gardener.cloud/role": "extension"}}},
		NetworkPolicies:    &state.NetworkPolicies{Operator: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}},
	},
}

// decision is what the operator decides about an Etcd.
type decision struct {
	// refusal is why the operator rejects it. Empty: it does not.
	refusal string
	// waiting is what the operator still waits for. Empty: nothing.
	waiting string
	// objects are all objects of the largest rendering.
	objects []client.Object
	// kinds are the kinds of objects for which the operator requests a dry run before it accepts the generation.
	kinds []string
}

func (d decision) hasDryRun(object client.Object) bool {
	return slices.Contains(d.kinds, object.GetObjectKind().GroupVersionKind().Kind)
}

// decide reconciles a new Etcd with the engine of the operator in a simulated cluster, until all members have started. All Secrets and the
// BackupEntry of the Etcd exist.
func decide(etcd *druidv1alpha1.Etcd) decision {
	cluster := simulator.New(etcd, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	canonical, _ := helper.Canonical(etcd)
	if existing := canonical.Spec.Etcd.BootstrapWithExistingCluster; existing != nil {
		for _, member := range existing.Members {
			cluster.AddExisting(member.Name)
		}
	}
	var run *engine.Run
	operator := simulator.NewOperator(cluster, config)
	operator.OnObserve = func(o *etcdcluster.Observation) {
		o.Gardener = gardenerOf(canonical)
		if helper.IsStoreConfigured(canonical) { // the simulated sidecar does not know deprecated fields
			o.FullSnapshotLease.RenewTime = cluster.Now()
		}
	}
	operator.OnApply = func(applied *engine.Run, _ simulator.Manifest) { run = applied }
	result := engine.Result{}
	for range maxReconciliations {
		result = operator.Reconcile()
		if result.State == druidv1alpha1.LastOperationStateSucceeded || len(result.Errors) > 0 {
			break
		}
		cluster.Tick()
		cluster.RenewLeases()
	}
	switch {
	case len(result.Errors) > 0:
		return decision{refusal: fmt.Sprintf("%s: %s", result.Errors[0].Code, result.Errors[0].Description)}
	case run == nil, result.State != druidv1alpha1.LastOperationStateSucceeded:
		return decision{waiting: fmt.Sprintf("%s %s", result.State, result.Description)}
	}
	kinds := []string{"StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy", "ConfigMap"}
	if etcd.Spec.Backup.SnapshotCompaction != nil {
		kinds = append(kinds, "Job")
	}

	return decision{objects: objectsOf(run), kinds: kinds}
}

// gardenerOf returns a BackupEntry for the store of an Etcd that needs one.
func gardenerOf(etcd *druidv1alpha1.Etcd) etcdcluster.Gardener {
	store := etcd.Spec.Backup.Store
	if store == nil || !backupstore.NeedsEntry(*store) {
		return etcdcluster.Gardener{}
	}
	name := cmp.Or(backupstore.NamedEntry(*store, etcd.Namespace), etcd.Namespace+"--0a1b2c3d")

	return etcdcluster.Gardener{
		BackupEntries: []etcdcluster.BackupEntry{{
			Name: name, Namespace: etcd.Namespace, Type: "aws", BucketName: "bucket", GenerationObserved: true, State: "Succeeded",
			PublishedSecret: &corev1.SecretReference{Namespace: etcd.Namespace, Name: "etcd-backup"},
		}},
		StoreSecrets: []etcdcluster.StoreSecret{{Name: "etcd-backup", CreatedBy: name}},
	}
}

// objectsOf returns the objects that a run writes, or lets gardener-resource-manager write, and the Job of later compactions.
func objectsOf(run *engine.Run) []client.Object {
	objects := append([]client.Object(nil), run.Rendered.Objects...)
	for _, lease := range componentetcd.MemberLeases(run.Rendered.Values) {
		objects = append(objects, lease)
	}
	for _, lease := range componentetcd.SnapshotLeases(run.Rendered.Values) {
		objects = append(objects, lease)
	}
	if store := run.Target.Store; store != nil {
		objects = append(objects, compaction.Job(compaction.Values{Etcd: run.Target.Etcd, Store: *store, Node: "node", Image: "etcdbrctl", Deadline: time.Hour, Attempt: 1}))
	}

	return objects
}

// decideCopy returns what the operator decides about a task for a copy.
func decideCopy(task *druidv1alpha1.EtcdCopyBackupsTask) decision {
	if errs := validation.ValidateCopyBackupsTask(task); len(errs) > 0 {
		return decision{refusal: errs.ToAggregate().Error()}
	}
	values := copybackups.Values{Task: task, Image: "etcdbrctl", InitImage: "init"}
	for _, side := range []struct {
		path  string
		spec  druidv1alpha1.StoreSpec
		store *backupstore.Store
	}{{"spec.sourceStore", task.Spec.SourceStore, &values.Source}, {"spec.targetStore", task.Spec.TargetStore, &values.Target}} {
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: task.Name}}
		etcd.Spec.Backup.Store = &side.spec
		resolution := backupstore.Resolve(backupstore.ResolveInput{Etcd: etcd, Gardener: gardenerOf(etcd), Path: field.NewPath(side.path)})
		if resolution.Store == nil {
			return decision{refusal: side.path + ": " + resolution.Message}
		}
		*side.store = *resolution.Store
	}
	job := copybackups.Job(values)
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))

	return decision{objects: []client.Object{job}}
}

// decoded returns the objects as gardener-resource-manager decodes them.
func decoded(objects []client.Object) ([]*unstructured.Unstructured, error) {
	encoded, err := payload.Encode(api.Scheme(), objects)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(encoded), 1024)
	for {
		var object map[string]any
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		all = append(all, &unstructured.Unstructured{Object: object})
	}
	if len(all) != len(objects) {
		return nil, fmt.Errorf("%d objects are decoded as %d", len(objects), len(all))
	}

	return all, nil
}
