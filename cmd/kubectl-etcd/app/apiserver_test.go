// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// scheme has the kinds that the operator and the in-memory cluster use.
var scheme = func() *runtime.Scheme {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, druidv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme} {
		utilruntime.Must(add(all))
	}

	return all
}()

// resources are the kinds that apiServer serves, by group and version, and by the name of the resource.
var resources = map[schema.GroupVersion]map[string]string{
	{Version: "v1"}: {
		"namespaces": "Namespace", "nodes": "Node", "persistentvolumes": "PersistentVolume", "persistentvolumeclaims": "PersistentVolumeClaim",
		"pods": "Pod", "secrets": "Secret", "configmaps": "ConfigMap",
	},
	{Group: "apps", Version: "v1"}:                           {"statefulsets": "StatefulSet"},
	{Group: "batch", Version: "v1"}:                          {"jobs": "Job"},
	{Group: "coordination.k8s.io", Version: "v1"}:            {"leases": "Lease"},
	{Group: "storage.k8s.io", Version: "v1"}:                 {"storageclasses": "StorageClass"},
	{Group: "druid.gardener.cloud", Version: "v1alpha1"}:     {"etcds": "Etcd", "etcdopstasks": "EtcdOpsTask"},
	{Group: "resources.gardener.cloud", Version: "v1alpha1"}: {"managedresources": "ManagedResource"},
}

// clusterScoped are the resources without a namespace.
var clusterScoped = map[string]bool{"namespaces": true, "nodes": true, "persistentvolumes": true, "storageclasses": true}

// apiServer serves the objects of a cluster in memory over HTTP, for get and list. Members cannot be reached through it.
func apiServer(k *kube.Cluster) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		result, err := serve(request, k.Client(nil))
		response.Header().Set("Content-Type", "application/json")
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			result = new(status.Status())
			response.WriteHeader(int(status.Status().Code))
		}
		_ = json.NewEncoder(response).Encode(result)
	}))
	DeferCleanup(server.Close)

	return server
}

// serve answers a request: the discovery of resources, one object, or a list.
func serve(request *http.Request, reader client.Reader) (any, error) {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case request.Method != http.MethodGet:
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{}, request.Method)
	case len(path) == 1 && path[0] == "api":
		return metav1.APIVersions{Versions: []string{"v1"}}, nil
	case len(path) == 1 && path[0] == "apis":
		return groups(), nil
	case path[0] == "api":
		path = append([]string{""}, path[1:]...)
	default:
		path = path[1:]
	}
	version := schema.GroupVersion{Group: path[0], Version: path[1]}
	if path = path[2:]; len(path) == 0 {
		return resourcesOf(version), nil
	}
	key := client.ObjectKey{}
	if path[0] == "namespaces" && len(path) > 2 {
		key.Namespace, path = path[1], path[2:]
	}
	kind := version.WithKind(resources[version][path[0]])
	switch {
	case kind.Kind == "" || len(path) > 2:
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: version.Group, Resource: path[0]}, strings.Join(path[1:], "/"))
	case len(path) == 1:
		return list(request, reader, kind, key.Namespace)
	default:
		key.Name = path[1]

		return get(request, reader, kind, key)
	}
}

func groups() metav1.APIGroupList {
	var all metav1.APIGroupList
	for version := range resources {
		if version.Group != "" {
			served := metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
			all.Groups = append(all.Groups, metav1.APIGroup{Name: version.Group, Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served})
		}
	}

	return all
}

func resourcesOf(version schema.GroupVersion) metav1.APIResourceList {
	served := metav1.APIResourceList{GroupVersion: version.String()}
	for name, kind := range resources[version] {
		served.APIResources = append(served.APIResources, metav1.APIResource{
			Name: name, SingularName: strings.ToLower(kind), Kind: kind, Namespaced: !clusterScoped[name], Verbs: metav1.Verbs{"get", "list"},
		})
	}

	return served
}

// wantsMetadata is true for a request that reads metadata only.
func wantsMetadata(request *http.Request) bool {
	return strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata")
}

func get(request *http.Request, reader client.Reader, kind schema.GroupVersionKind, key client.ObjectKey) (any, error) {
	if wantsMetadata(request) {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(kind)
		err := reader.Get(request.Context(), key, metadata)
		metadata.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))

		return metadata, err
	}
	object := newObject(kind).(client.Object)
	err := reader.Get(request.Context(), key, object)
	object.GetObjectKind().SetGroupVersionKind(kind)

	return object, err
}

func list(request *http.Request, reader client.Reader, kind schema.GroupVersionKind, namespace string) (any, error) {
	selector, err := labels.Parse(request.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	kind.Kind += "List"
	var objects client.ObjectList
	if wantsMetadata(request) {
		objects = &metav1.PartialObjectMetadataList{}
		objects.GetObjectKind().SetGroupVersionKind(kind)
	} else {
		objects = newObject(kind).(client.ObjectList)
	}
	err = reader.List(request.Context(), objects, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	if wantsMetadata(request) {
		kind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
	}
	objects.GetObjectKind().SetGroupVersionKind(kind)

	return objects, err
}

func newObject(kind schema.GroupVersionKind) runtime.Object {
	object, err := scheme.New(kind)
	if err != nil {
		panic(err)
	}

	return object
}
