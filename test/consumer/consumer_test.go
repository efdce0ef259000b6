// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package consumer_test imports the API module as another operator does: from another module, without the operator.
//
// What may not live here: imports of modules that the API module does not require.
package consumer_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
)

// modules are the modules that a program with the API is compiled from. A new one is a dependency of every importer.
var modules = []string{
	"github.com/fxamacker/cbor/v2",
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid",
	"github.com/gardener/gardener-extension-etcd-druid/test/consumer",
	"github.com/go-logr/logr",
	"github.com/json-iterator/go",
	"github.com/modern-go/concurrent",
	"github.com/modern-go/reflect2",
	"github.com/robfig/cron",
	"github.com/x448/float16",
	"go.yaml.in/yaml/v2",
	"golang.org/x/net",
	"golang.org/x/text",
	"gopkg.in/inf.v0",
	"k8s.io/api",
	"k8s.io/apimachinery",
	"k8s.io/klog/v2",
	"k8s.io/kube-openapi",
	"k8s.io/utils",
	"sigs.k8s.io/json",
	"sigs.k8s.io/randfill",
	"sigs.k8s.io/structured-merge-diff/v6",
	"sigs.k8s.io/yaml",
}

// excluded are prefixes of the paths of modules that the API module must not require directly or indirectly. Each of them raises the
// version that an importer selects.
var excluded = []string{
	"github.com/gardener/etcd-druid", "github.com/gardener/gardener/", "github.com/onsi/", "go.etcd.io/", "google.golang.org/grpc",
	"k8s.io/apiextensions-apiserver", "k8s.io/apiserver", "k8s.io/client-go", "sigs.k8s.io/controller-runtime",
}

func TestDecodesExamples(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := druidv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	files, err := filepath.Glob("../../example/*.yaml")
	if err != nil {
		t.Fatal(err)
	}

	decoded := map[string]int{}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
			object, kind, err := decoder.Decode(document, nil, nil)
			if runtime.IsNotRegisteredError(err) || runtime.IsMissingKind(err) {
				continue // an object of another API, or a comment
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			decoded[kind.Kind]++
			if etcd, is := object.(*druidv1alpha1.Etcd); is {
				canonical, errs := helper.Canonical(etcd)
				if errs = append(errs, validation.ValidateEtcd(canonical)...); len(errs) > 0 {
					t.Errorf("%s: %v", name, errs)
				}
			}
		}
	}
	if decoded["Etcd"] < 5 || decoded["EtcdCopyBackupsTask"] < 1 || decoded["EtcdOpsTask"] < 4 {
		t.Errorf("decoded only %v", decoded)
	}
	if len(crds.All()) != len(decoded) {
		t.Errorf("the examples have objects of %v, and there are %d CustomResourceDefinitions", decoded, len(crds.All()))
	}
}

func TestCompilesFewModules(t *testing.T) {
	compiled := goList(t, "-deps", "-test", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	if !slices.Equal(compiled, modules) {
		t.Errorf("compiled modules:\n%s", strings.Join(compiled, "\n"))
	}
}

func TestRequiresNoModuleOfTheOperator(t *testing.T) {
	for _, module := range goList(t, "-m", "-f", "{{.Path}}", "all") {
		if slices.ContainsFunc(excluded, func(prefix string) bool { return strings.HasPrefix(module, prefix) }) {
			t.Errorf("the API module requires %s", module)
		}
	}
}

// goList returns the distinct lines of `go list` in order, without empty ones.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output() // #nosec G204 -- constant arguments
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(output))
	slices.Sort(lines)

	return slices.Compact(lines)
}
