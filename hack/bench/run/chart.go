// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener/pkg/chartrenderer"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/charts"
)

const (
	// operatorName is the name of the operator's objects.
	operatorName = "gardener-extension-etcd-druid"
	// operatorNamespace is the namespace of the operator.
	operatorNamespace = "extension-etcd-druid"
	// operatorUser is the user of the operator at the API server.
	operatorUser = "system:serviceaccount:" + operatorNamespace + ":" + operatorName
	// tokenSeconds is the validity of the token of a run.
	tokenSeconds = 12 * 60 * 60
)

// values are the values of the chart. The operator is a process of the machine, to which the API server sends no webhooks.
var values = map[string]any{
	"replicaCount":            0,
	"gardener":                map[string]any{"enabled": false}, // each change of a spec is rolled out immediately
	"crds":                    map[string]any{"enabled": true},
	"embeddedResourceManager": map[string]any{"enabled": false},
	"networkPolicies":         map[string]any{"enabled": false}, // etcd-druid has none
	"protection":              map[string]any{"enabled": false},
	"evictionWebhook":         map[string]any{"enabled": false},
	"config": map[string]any{
		"debugging":   map[string]any{"enableProfiling": true},
		"controllers": map[string]any{"etcd": map[string]any{"newEtcdVersion": "3.4"}}, // the version of etcd-druid
		// The operator would end on a busy machine with the default.
		"leaderElection": map[string]any{"leaseDuration": "2m", "renewDeadline": "100s"},
		"server": map[string]any{
			"metrics":      map[string]any{"bindAddress": "127.0.0.1", "port": metricsPort},
			"healthProbes": map[string]any{"bindAddress": "127.0.0.1", "port": healthPort},
		},
	},
}

// installChart applies the objects of the operator's chart, and returns the content of its configuration file. Their kinds depend on each
// other: those that fail are applied again.
func installChart(ctx context.Context, c client.Client) (string, error) {
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}); err != nil {
		return "", fmt.Errorf("creating the namespace of the operator: %w", err)
	}
	rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.36.0"}).
		RenderEmbeddedFS(charts.Operator, charts.Path, operatorName, operatorNamespace, values)
	if err != nil {
		return "", fmt.Errorf("rendering the chart: %w", err)
	}
	config := ""
	for _, manifest := range rendered.Manifests {
		for document := range strings.SplitSeq("\n"+manifest.Content, "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				return "", fmt.Errorf("reading the chart: %w", err)
			}
			if len(object.Object) == 0 {
				continue
			}
			if object.GetKind() == "ConfigMap" && object.GetName() == operatorName+"-config" {
				if config, _, err = unstructured.NestedString(object.Object, "data", "config.yaml"); err != nil {
					return "", fmt.Errorf("reading the configuration in the chart: %w", err)
				}
			}
			if err := apply(ctx, c, object); err != nil {
				return "", fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}

	return config, errors.Join(allowProfiles(ctx, c), awaitPermissions(ctx, c))
}

// allowProfiles lets the operator read profiles. The benchmark reads them with its token.
func allowProfiles(ctx context.Context, c client.Client) error {
	return c.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-profiles"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "extensions.gardener.cloud:" + operatorName + ":profiling"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operatorNamespace, Name: operatorName}},
	})
}

// apply applies an object. It waits until the API server serves its kind.
func apply(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership, client.FieldOwner("helm"))
		if meta.IsNoMatchError(err) {
			return false, nil
		}

		return err == nil, err
	})
}

// awaitPermissions waits until the API server applies the role of the operator.
func awaitPermissions(ctx context.Context, c client.Client) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: operatorUser, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + operatorNamespace},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: "druid.gardener.cloud", Resource: "etcds"},
		}}
		err := c.Create(ctx, review)

		return review.Status.Allowed, err
	})
}

// tokenOfOperator returns a token of the ServiceAccount of the operator.
func tokenOfOperator(ctx context.Context, c client.Client) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: operatorName}}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("creating a token of the operator: %w", err)
	}

	return request.Status.Token, nil
}
