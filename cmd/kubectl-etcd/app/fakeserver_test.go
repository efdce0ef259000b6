// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
)

// moreResources are the kinds that fakeServer serves in addition to those of apiServer.
var moreResources = map[schema.GroupVersion]map[string]string{
	{Version: "v1"}:                                      {"services": "Service", "events": "Event"},
	{Group: "policy", Version: "v1"}:                     {"poddisruptionbudgets": "PodDisruptionBudget"},
	{Group: "druid.gardener.cloud", Version: "v1alpha1"}: {"etcdcopybackupstasks": "EtcdCopyBackupsTask"},
}

// fakeServer serves objects over HTTP: get, list, create, patch, delete, and the logs and commands of pods. It records writes as "VERB PATH
// BODY". Members cannot be reached through it.
type fakeServer struct {
	client.Client

	url string
	// forbidden returns true for a request that RBAC or an admission policy rejects.
	forbidden func(verb, path string) bool
	// logs by namespace/pod/container. A previous log has the suffix /previous.
	logs map[string]string
	// invalid returns true for the body of an object that cannot be created. Nil: all can be.
	invalid func(body string) bool
	// created is called for each object that was created. Nil: nothing happens then.
	created func(client.Object)
	// exec runs a command in a pod, and returns its exit code. Nil: no pod runs commands.
	exec func(pod string, command []string, out, errOut io.Writer) int

	lock   sync.Mutex
	writes []string
}

func newFakeServer(objects ...client.Object) *fakeServer {
	f := &fakeServer{
		Client:    fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		forbidden: func(string, string) bool { return false },
	}
	server := httptest.NewServer(f)
	f.url = server.URL
	DeferCleanup(server.Close)

	return f
}

// run runs the plugin against the server, and returns its exit code and what it prints.
func (f *fakeServer) run(ctx context.Context, args ...string) (int, string) {
	out := &bytes.Buffer{}
	args = append(args, "--kubeconfig", "/dev/null", "--server", f.url)

	return app.Run(ctx, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: out}, args), out.String()
}

// expectSuccess runs the plugin and expects the exit code 0.
func (f *fakeServer) expectSuccess(ctx context.Context, args ...string) {
	GinkgoHelper()
	code, text := f.run(ctx, args...)
	Expect(code).To(Equal(0), text)
}

// ServeHTTP implements http.Handler.
func (f *fakeServer) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	if text, found := f.logOf(request); found {
		_, _ = io.WriteString(response, text)

		return
	}
	if strings.HasSuffix(request.URL.Path, "/exec") && f.exec != nil {
		f.serveExec(response, request)

		return
	}
	result, err := f.serve(request)
	response.Header().Set("Content-Type", "application/json")
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		failure := status.Status()
		failure.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		result = failure
		response.WriteHeader(int(status.Status().Code))
	}
	_ = json.NewEncoder(response).Encode(result)
}

func (f *fakeServer) logOf(request *http.Request) (string, bool) {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	if len(path) != 7 || path[6] != "log" {
		return "", false
	}
	key := path[3] + "/" + path[5] + "/" + request.URL.Query().Get("container")
	if request.URL.Query().Get("previous") == "true" {
		key += "/previous"
	}
	text, found := f.logs[key]

	return text, found
}

func (f *fakeServer) serve(request *http.Request) (any, error) {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case len(path) == 1 && path[0] == "api":
		return metav1.APIVersions{Versions: []string{"v1"}}, nil
	case len(path) == 1 && path[0] == "apis":
		all := groups()
		all.Groups = append(all.Groups, metav1.APIGroup{Name: "policy", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "policy/v1", Version: "v1"}}})

		return all, nil
	case path[0] == "api":
		path = append([]string{""}, path[1:]...)
	default:
		path = path[1:]
	}
	version := schema.GroupVersion{Group: path[0], Version: path[1]}
	kinds := maps.Clone(moreResources[version])
	if kinds == nil {
		kinds = map[string]string{}
	}
	maps.Copy(kinds, resources[version])
	if path = path[2:]; len(path) == 0 {
		served := metav1.APIResourceList{GroupVersion: version.String()}
		for name, kind := range kinds {
			served.APIResources = append(served.APIResources, metav1.APIResource{
				Name: name, SingularName: strings.ToLower(kind), Kind: kind, Namespaced: !clusterScoped[name], Verbs: metav1.Verbs{"get", "list", "create", "patch", "delete"},
			})
		}

		return served, nil
	}
	key := client.ObjectKey{}
	if path[0] == "namespaces" && len(path) > 2 {
		key.Namespace, path = path[1], path[2:]
	}
	if len(path) == 2 {
		key.Name = path[1]
	}
	kind := version.WithKind(kinds[path[0]])
	if f.forbidden(request.Method, strings.Join(path, "/")) {
		return nil, apierrors.NewForbidden(schema.GroupResource{Group: version.Group, Resource: path[0]}, key.Name, errors.New("not allowed"))
	}
	if kind.Kind == "" || len(path) > 2 {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: version.Group, Resource: path[0]}, key.Name)
	}

	return f.respond(request, kind, key, strings.Join(path, "/"))
}

func (f *fakeServer) respond(request *http.Request, kind schema.GroupVersionKind, key client.ObjectKey, path string) (any, error) {
	switch {
	case request.Method == http.MethodGet && key.Name == "":
		return list(request, f.Client, kind, key.Namespace)
	case request.Method == http.MethodGet:
		return get(request, f.Client, kind, key)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	f.lock.Lock()
	f.writes = append(f.writes, request.Method+" "+path+" "+string(body))
	f.lock.Unlock()
	object := newObject(kind).(client.Object)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	switch request.Method {
	case http.MethodPatch:
		err = f.Patch(request.Context(), object, client.RawPatch(types.PatchType(request.Header.Get("Content-Type")), body))
	case http.MethodPost:
		if err = json.Unmarshal(body, object); err != nil {
			return nil, err
		}
		if f.invalid != nil && f.invalid(string(body)) {
			return nil, apierrors.NewInvalid(kind.GroupKind(), "", nil)
		}
		object.SetNamespace(key.Namespace)
		if err = f.Create(request.Context(), object); err == nil && f.created != nil {
			f.created(object)
		}
	case http.MethodDelete:
		err = f.Delete(request.Context(), object)
	default:
		err = apierrors.NewMethodNotSupported(schema.GroupResource{}, request.Method)
	}
	object.GetObjectKind().SetGroupVersionKind(kind)

	return object, err
}

// serveExec runs a command in a pod, with the protocol v5.channel.k8s.io.
func (f *fakeServer) serveExec(response http.ResponseWriter, request *http.Request) {
	upgrader := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
	connection, err := upgrader.Upgrade(response, request, nil)
	if err != nil {
		return // the request was answered
	}
	defer connection.Close()
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	code := f.exec(path[5], request.URL.Query()["command"], channel{connection, 1}, channel{connection, 2})
	status := metav1.Status{Status: metav1.StatusSuccess}
	if code != 0 {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(code)}},
		}}
	}
	text, err := json.Marshal(status)
	if err == nil {
		_, _ = channel{connection, 3}.Write(text)
	}
	_ = connection.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
}

// channel is a stream of a websocket.
type channel struct {
	connection *websocket.Conn
	number     byte
}

// Write implements io.Writer.
func (c channel) Write(text []byte) (int, error) {
	return len(text), c.connection.WriteMessage(websocket.BinaryMessage, append([]byte{c.number}, text...))
}
