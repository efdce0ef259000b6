// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchedForDrift are the kinds, in addition to the StatefulSet and the Leases, whose objects belong to an Etcd. Of these the caches
// hold the metadata. gardener-resource-manager does not watch what it applies, and would repair it up to an hour later.
var watchedForDrift = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
}

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj
}

// cachedForm is an empty object of the form in which the caches hold a kind.
func cachedForm(kind schema.GroupVersionKind) client.Object {
	if kind == appsv1.SchemeGroupVersion.WithKind("StatefulSet") {
		return &appsv1.StatefulSet{}
	}
	return metadataOf(kind)
}

func newObject(scheme *runtime.Scheme, kind schema.GroupVersionKind) (client.Object, error) {
	obj, err := scheme.New(kind)
	if err != nil {
		return nil, err
	}
	return obj.(client.Object), nil
}

// cached reads from the caches, also the metadata of kinds whose content Client reads from the API server.
func (r *Reconciler) cached() client.Reader {
	if r.Cache == nil {
		return r.Client
	}
	return r.Cache
}

const (
	// comparedObjects is how many objects are known to be equal to their rendering. As many are assumed to be equal, and as many are known to
	// differ. An entry has some hundred bytes. The limit suffices for 20,000 Etcds. With more objects, each observation would replace a result
	// that a later one needs, and the operator would read every object again.
	comparedObjects = 200000
	// maxComparisons is how many times an object is found different within drift.Pause after its last repair. gardener-resource-manager
	// applies the object within that time, and another writer may change it before. After that the last difference holds until the pause
	// ends, however often another writer changes the object.
	maxComparisons = 2
	// maxWaiting is the number of Etcds in the queue up to which the operator reads objects that it has not compared before. More Etcds wait when
	// the operator starts. A slow API server permits fewer reads than the limit of comparisons, so that the limit has no effect.
	maxWaiting = 50
	// missingVersion is the version of an object that does not exist.
	missingVersion = "missing"
)

// newComparisonLimit returns the limit of comparisons that can wait. The operator compares the objects of 50 Etcds at once, and those of five
// more each second. It compares none of them while more than maxWaiting Etcds wait for a worker.
func newComparisonLimit() *rate.Limiter { return rate.NewLimiter(5*objectsOfEtcd, 50*objectsOfEtcd) }

// objectsOfEtcd is how many objects of an Etcd without a NetworkPolicy are compared within the limit: all but the StatefulSet.
const objectsOfEtcd = 7

// comparisons are the results of earlier comparisons. They are the versions of objects that equal their rendering or are assumed to, and the
// last differences of others. They save reads, and decide nothing. An operator that starts reads each object
// once, when the limit and the length of the queue permit. The zero value is ready.
type comparisons struct {
	once                      sync.Once
	equal, assumed, different *lru.Cache
}

// objectKey identifies an object of any kind.
type objectKey struct {
	kind schema.GroupVersionKind
	key  client.ObjectKey
}

// comparison is what is known before an object is compared with its rendering.
type comparison struct {
	object objectKey
	// checksum identifies the rendering.
	checksum string
	// version is the UID and the version of the object, or missingVersion.
	version string
	// repairedAt is the time of the last repair of the object within drift.Pause. Zero: there was none.
	repairedAt time.Time
}

// lastDifference is a comparison that found a difference.
type lastDifference struct {
	comparison

	what string
	// count is how many comparisons found a difference since the last repair.
	count int
}

// of returns the comparison of an object as it is now.
func (c comparison) of(obj client.Object) comparison {
	c.version = string(obj.GetUID()) + "/" + version(obj)
	return c
}

func (c *comparisons) init() {
	c.once.Do(func() {
		c.equal, c.assumed, c.different = lru.New(comparedObjects), lru.New(comparedObjects), lru.New(comparedObjects)
	})
}

// lastDifference returns the last difference of an object that was repaired within drift.Pause. The object has not changed since, or was
// found different maxComparisons times. Empty: it has to be compared.
func (c *comparisons) lastDifference(now comparison) string {
	last, found := c.last(now.object)
	if !found || now.repairedAt.IsZero() || last.checksum != now.checksum {
		return ""
	}
	isUnchanged := last.version == now.version && (last.repairedAt.IsZero() || last.repairedAt.Equal(now.repairedAt))
	if isUnchanged || last.repairedAt.Equal(now.repairedAt) && last.count >= maxComparisons {
		return last.what
	}
	return ""
}

// differs records a difference, and returns it.
func (c *comparisons) differs(now comparison, what string) string {
	count := 1
	if last, found := c.last(now.object); found && last.checksum == now.checksum && last.repairedAt.Equal(now.repairedAt) {
		count += last.count
	}
	c.different.Add(now.object, lastDifference{comparison: now, what: what, count: count})
	return what
}

func (c *comparisons) last(object objectKey) (lastDifference, bool) {
	c.init()
	last, found := c.different.Get(object)
	if !found {
		return lastDifference{}, false
	}
	return last.(lastDifference), true
}

// isEqual is true if this version of an object was found equal to what is rendered under the checksum.
func (c *comparisons) isEqual(obj client.Object, checksum string) bool {
	c.init()
	known, found := c.equal.Get(obj.GetUID())
	return found && known == checksum+version(obj)
}

func (c *comparisons) recordEqual(obj client.Object, checksum string) {
	c.init()
	c.equal.Add(obj.GetUID(), checksum+version(obj))
}

// isUnchanged is true if the object was never compared, and has had this version since this operator has first seen it.
func (c *comparisons) isUnchanged(obj client.Object) bool {
	c.init()
	if _, found := c.equal.Get(obj.GetUID()); found {
		return false
	}
	first, found := c.assumed.Get(obj.GetUID())
	return !found || first == version(obj)
}

// assumeEqual records the version of an object that is compared later.
func (c *comparisons) assumeEqual(obj client.Object) {
	c.init()
	c.assumed.Add(obj.GetUID(), version(obj))
}

// version changes with everything of an object that is rendered. If the API server counts the generations of the spec,
// version does not change with the status.
func version(obj client.Object) string {
	if obj == nil {
		return ""
	}
	if obj.GetGeneration() == 0 {
		return obj.GetResourceVersion()
	}
	metadata, err := json.Marshal([]any{obj.GetGeneration(), obj.GetLabels(), cachedAnnotations(obj), obj.GetOwnerReferences(), obj.GetDeletionTimestamp()})
	if err != nil {
		return obj.GetResourceVersion()
	}
	return fmt.Sprintf("%x", sha256.Sum256(metadata))
}
