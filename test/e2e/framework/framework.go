// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package framework contains what the end-to-end tests share. This is the connection to the local seed and to its operator.
// Each test gets a namespace, and a log of the writes that etcd acknowledged. The package also contains certificates, the audit
// log, and the report about a failed test.
//
// The package contains no tests, and it knows no internals of the operator. A test observes what a user of the seed observes.
package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const (
	// ReadyTimeout is how long a test waits until a cluster has the wanted state. A member needs half a minute to
	// become ready on an idle machine, and multiple members start at the same time on two cores.
	ReadyTimeout = 4 * time.Minute
	// ReconcileTimeout is how long a test waits for an effect that needs reconciliations only.
	ReconcileTimeout = time.Minute
	// PollInterval is the time between two polls of a condition.
	PollInterval = 500 * time.Millisecond
)

// Users that hack/seed configures in the values of the chart. The protection of the objects of Etcds exempts the first one. The
// second one may delete the pods of members.
const (
	exemptUser = "seed:exempt"
	drainer    = "seed:drainer"
)

// Framework is the connection to a running seed with the operator.
type Framework struct {
	// Client is a client without a cache and with all permissions. It impersonates the user that the protection exempts. Tests
	// use it to damage the objects of Etcds.
	Client client.Client
	// Admin is a client without a cache for the administrator. The protection applies to the administrator.
	Admin client.Client
	// Drainer is a client without a cache and with all permissions. It impersonates the user that drains nodes.
	Drainer client.Client
	// Config is the client configuration of the administrator.
	Config *rest.Config
	// Clientset reads the logs of pods.
	Clientset kubernetes.Interface
	// AuditLog is the path of the file in which the API server records every write.
	AuditLog string
	// LocalStore is the directory in which the nodes keep the snapshots of stores with the provider Local.
	LocalStore string

	// environment is the environment of programs that tests run against the cluster. Nil means the environment of this
	// process.
	environment []string
	// operatorNamespace is the namespace in which the operator is installed.
	operatorNamespace string
}

// Connect connects to the seed in the environment variables. It returns an error with the remedy if there is no seed, or if no
// operator is installed on it.
func Connect(ctx context.Context) (*Framework, error) {
	f := &Framework{operatorNamespace: "extension-etcd-druid"}
	var kubeconfig string

	for _, setting := range []struct {
		name   string
		target *string
	}{
		{"KUBECONFIG", &kubeconfig}, {"SEED_AUDIT_LOG", &f.AuditLog}, {"SEED_LOCAL_STORE", &f.LocalStore},
	} {
		if *setting.target = os.Getenv(setting.name); *setting.target == "" {
			return nil, fmt.Errorf("%s is not set, so the tests cannot find the seed: run them with `make test-e2e`, which starts the local seed and sets the variable", setting.name)
		}
	}

	if err := f.connect(kubeconfig); err != nil {
		return nil, err
	}

	if _, err := f.Operator(ctx); err != nil {
		return nil, err
	}

	return f, nil
}

// connect creates the clients of the cluster.
func (f *Framework) connect(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading KUBECONFIG: %w", err)
	}

	config.QPS, config.Burst = 50, 100
	f.Config = config

	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), druidv1alpha1.AddToScheme(scheme), resourcesv1alpha1.AddToScheme(scheme), extensionsv1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}

	if f.Client, err = f.impersonate(exemptUser, scheme); err != nil {
		return fmt.Errorf("connecting to the seed: %w; start it with `make up`", err)
	}

	if f.Drainer, err = f.impersonate(drainer, scheme); err != nil {
		return err
	}

	if f.Admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}

	f.Clientset, err = kubernetes.NewForConfig(config)

	return err
}

// impersonate returns a client that impersonates the user and has all permissions.
func (f *Framework) impersonate(user string, scheme *runtime.Scheme) (client.Client, error) {
	config := rest.CopyConfig(f.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}

	return client.New(config, client.Options{Scheme: scheme})
}

// operatorName is the name of the operator's Deployment.
const operatorName = "gardener-extension-etcd-druid"

// Operator returns the operator that was installed with the cluster. Tests that install another operator use another
// namespace.
func (f *Framework) Operator(ctx context.Context) (*Operator, error) {
	key := client.ObjectKey{Namespace: f.operatorNamespace, Name: operatorName}

	err := f.Client.Get(ctx, key, &appsv1.Deployment{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the seed runs, but Deployment %s does not exist: `make up` installs the operator", key)
	}

	if err != nil {
		return nil, fmt.Errorf("reading the Deployment of the operator: %w; `make seed-status` shows whether the seed runs", err)
	}

	return &Operator{Framework: f, Deployment: key}, nil
}
