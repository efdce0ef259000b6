// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package applicable_test shows with a real kube-apiserver that what the operator accepts can be applied. Random specs at the limits of the
// CustomResourceDefinitions are rejected with field and remedy, or the API server accepts every object of their rendering. KUBEBUILDER_ASSETS
// is the directory with the binaries kube-apiserver and etcd.
//
// What may not live here: the generation of specs (see test/randomspec), and cases of single fields.
package applicable_test

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

func TestApplicable(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Applicable Suite")
}

// api is a client of the API server.
var api client.Client

var _ = BeforeSuite(func() {
	logf.SetLogger(logr.Discard())
	config := rest.CopyConfig(environment.Start().Config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	var err error
	api, err = client.New(config, client.Options{Scheme: app.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
})

// seed returns the seed of the random specs. It is fixed by default, so that a test fails only if the code changes. SPECS_SEED=random selects the seed
// of Ginkgo, which Ginkgo prints. SPECS_SEED=NUMBER repeats such a run.
func seed() int64 {
	GinkgoHelper()
	switch text := os.Getenv("SPECS_SEED"); text {
	case "":
		return 39
	case "random":
		return GinkgoRandomSeed()
	default:
		return number("SPECS_SEED", 0)
	}
}

// count returns the number of random specs: SPECS, or else 200.
func count() int {
	GinkgoHelper()

	return int(number("SPECS", 200))
}

func number(variable string, fallback int64) int64 {
	GinkgoHelper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	parsed, err := strconv.ParseInt(text, 10, 64)
	Expect(err).NotTo(HaveOccurred(), variable)

	return parsed
}

// ensureNamespace creates a namespace if it does not exist.
func ensureNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	Expect(err).To(Or(Not(HaveOccurred()), MatchError(apierrors.IsAlreadyExists, "it exists")))
}
