// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package framework is what the end-to-end stories stand on: the local seed with the operator on it, a namespace for each
// story, what etcd has acknowledged, certificates, the audit log, and what a person would look at when a story fails.
//
// What may not live here: stories, and anything that knows how the operator works inside. What a story sees is what a user
// of the seed sees.
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
	// ReadyTimeout is how long a story waits for a cluster to become what it should be: a member is ready after half a minute on
	// an idle machine, and several start at once on two cores.
	ReadyTimeout = 4 * time.Minute
	// ReconcileTimeout is how long a story waits for what is only a matter of reconciling.
	ReconcileTimeout = time.Minute
	// PollInterval is the time between two looks.
	PollInterval = 500 * time.Millisecond
)

// Users whom hack/seed names in the values of the chart: who may change the objects of Etcds, and who may delete their pods.
const (
	exemptUser = "seed:exempt"
	drainer    = "seed:drainer"
)

// Framework is a running seed with the operator on it.
type Framework struct {
	// Client reads and writes without a cache, with every right, as somebody who may change the objects of Etcds: stories do what nobody should.
	Client client.Client
	// Admin reads and writes as the administrator, whom the protection keeps from the objects of Etcds.
	Admin client.Client
	// Drainer reads and writes with every right as the user who drains nodes.
	Drainer client.Client
	// Config is how to connect as the administrator.
	Config *rest.Config
	// Clientset reads the logs of pods.
	Clientset kubernetes.Interface
	// AuditLog is the file in which the API server records every write.
	AuditLog string
	// LocalStore is the folder below which the nodes keep the snapshots of stores with the provider Local.
	LocalStore string

	// environment is that of programs that are run against the cluster. Nil: that of this process.
	environment []string
	// operatorNamespace is where the operator was installed.
	operatorNamespace string
}

// Connect finds the seed that the environment names. It fails, with a sentence that says what to do, when there is none or when
// no operator runs on it.
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
			return nil, fmt.Errorf("%s is not set, so that there is no seed to tell the stories on: run them by `make test-e2e`, which starts the local seed and sets it", setting.name)
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

// connect makes the clients of the cluster.
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
		return fmt.Errorf("connecting to the seed: %w; start it by `make up`", err)
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

// impersonate returns a client that has every right under the name of the user.
func (f *Framework) impersonate(user string, scheme *runtime.Scheme) (client.Client, error) {
	config := rest.CopyConfig(f.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}

	return client.New(config, client.Options{Scheme: scheme})
}

// operatorName is the name of the operator's Deployment.
const operatorName = "gardener-extension-etcd-druid"

// Operator is the operator that the cluster was installed with. Stories that install another one do that in another namespace.
func (f *Framework) Operator(ctx context.Context) (*Operator, error) {
	key := client.ObjectKey{Namespace: f.operatorNamespace, Name: operatorName}

	err := f.Client.Get(ctx, key, &appsv1.Deployment{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the seed runs, but there is no Deployment %s on it: `make up` installs the operator", key)
	}

	if err != nil {
		return nil, fmt.Errorf("looking for the operator: %w; is the seed up? `make seed-status` tells", err)
	}

	return &Operator{Framework: f, Deployment: key}, nil
}
