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
	"strings"
	"time"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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
	PollInterval = time.Second
)

// Users that hack/seed configures in the values of the chart. The protection of the objects of Etcds exempts the first one. The
// second one may delete the pods of members.
const (
	exemptUser = "seed:exempt"
	drainer    = "seed:drainer"
)

// localStore is the default directory of the stores with the provider Local on the nodes.
const localStore = "/etc/gardener/local-backupbuckets"

// Framework is the connection to a running cluster with the operator.
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
	// Capabilities are what the specs can use.
	Capabilities Capabilities
	// AuditLog is the path of the file in which the API server of the local seed records every write. It is empty on another
	// cluster.
	AuditLog string
	// LocalStore is the directory in which the nodes keep the snapshots of stores with the provider Local.
	LocalStore string

	// environment is the environment of programs that tests run against the cluster. Nil means the environment of this
	// process.
	environment []string
	// operatorNamespace is the namespace in which the operator is installed.
	operatorNamespace string
}

// Connect connects to the cluster of the environment variable KUBECONFIG. SEED_AUDIT_LOG and SEED_LOCAL_STORE are set for the local
// seed only. It returns an error with the remedy if there is no cluster, or if no operator is installed on it.
func Connect(ctx context.Context) (*Framework, error) {
	f := &Framework{AuditLog: os.Getenv("SEED_AUDIT_LOG"), LocalStore: os.Getenv("SEED_LOCAL_STORE")}

	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		return nil, errors.New("KUBECONFIG is not set: run the tests with `make test-e2e`, which starts the local seed and sets the variable")
	}

	var err error
	if f.Capabilities, err = capabilitiesOf(f.AuditLog != "", EtcdVersion(), os.Getenv("SIDECAR_NEXT")); err != nil {
		return nil, err
	}

	if f.LocalStore == "" {
		f.LocalStore = localStore
	}

	if err := f.connect(kubeconfig); err != nil {
		return nil, err
	}

	if f.operatorNamespace, err = f.findOperator(ctx); err != nil {
		return nil, err
	}

	return f, f.checkExemptions(ctx)
}

// findOperator returns the namespace of the operator's only Deployment.
func (f *Framework) findOperator(ctx context.Context) (string, error) {
	deployments := &appsv1.DeploymentList{}
	if err := f.Client.List(ctx, deployments, client.MatchingFields{"metadata.name": operatorName}); err != nil {
		return "", fmt.Errorf("reading the Deployment of the operator from %s: %w; `make seed-status` shows whether the local seed runs", f.Config.Host, err)
	}

	if len(deployments.Items) != 1 {
		return "", fmt.Errorf("the cluster %s has %d Deployments with the name %s, but the tests need one. `make up` installs the operator on the local seed. "+
			"On another cluster, install the chart with the values of test/e2e/values.yaml", f.Config.Host, len(deployments.Items), operatorName)
	}

	return deployments.Items[0].Namespace, nil
}

// checkExemptions returns an error if the protection does not allow the users of the tests to damage objects.
func (f *Framework) checkExemptions(ctx context.Context) error {
	policies := &admissionregistrationv1.ValidatingAdmissionPolicyList{}
	if err := f.Client.List(ctx, policies); err != nil {
		return err
	}

	var text strings.Builder

	for _, policy := range policies.Items {
		if strings.HasPrefix(policy.Name, operatorName+"-") {
			for _, validation := range policy.Spec.Validations {
				text.WriteString(validation.Expression)
			}

			for _, variable := range policy.Spec.Variables {
				text.WriteString(variable.Expression)
			}

			for _, condition := range policy.Spec.MatchConditions {
				text.WriteString(condition.Expression)
			}
		}
	}

	for _, user := range []string{exemptUser, drainer} {
		if !strings.Contains(text.String(), user) {
			return fmt.Errorf("the protection on the cluster %s does not exempt the user %s of the tests: install the chart with the values of test/e2e/values.yaml", f.Config.Host, user)
		}
	}

	return nil
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
		return nil, fmt.Errorf("the cluster runs, but Deployment %s does not exist: `make up` installs the operator", key)
	}

	if err != nil {
		return nil, fmt.Errorf("reading the Deployment of the operator: %w; `make seed-status` shows whether the seed runs", err)
	}

	return &Operator{Framework: f, Deployment: key}, nil
}
