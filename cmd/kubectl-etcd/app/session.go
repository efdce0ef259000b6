// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

// callTimeout bounds each call to a member, through the API server.
const callTimeout = 5 * time.Second

// session is a connection to the cluster with the rights of the person.
type session struct {
	client.Client

	config    *rest.Config
	clientset kubernetes.Interface
	namespace string
	clock     clock.PassiveClock
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, druidv1alpha1.AddToScheme, extensionsv1alpha1.AddToScheme, operatorv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // two types for one kind: a mistake in this function
		}
	}

	return scheme
}

// connect reads the kubeconfig. It does not talk to the API server yet.
func (p *plugin) connect() (*session, error) {
	config, err := p.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 50, 100 // an observation reads some thirty objects
	config.WarningHandler = rest.NoWarnings{}
	namespace, _, err := p.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", config.Host, err)
	}

	return &session{Client: c, config: config, clientset: clientset, namespace: namespace, clock: clock.RealClock{}}, nil
}

// names are the names of all Etcds of the namespace.
func (s *session) names(ctx context.Context) ([]string, error) {
	etcds := &druidv1alpha1.EtcdList{}
	if err := s.List(ctx, etcds, client.InNamespace(s.namespace)); err != nil {
		return nil, explain(err)
	}
	names := make([]string, 0, len(etcds.Items))
	for _, etcd := range etcds.Items {
		names = append(names, etcd.Name)
	}

	return names, nil
}

// etcd reads the Etcd with the name among the arguments, else the only one in the namespace, and its current form.
func (s *session) etcd(ctx context.Context, args []string) (stored, canonical *druidv1alpha1.Etcd, err error) {
	name := ""
	if len(args) > 0 {
		name = strings.TrimPrefix(strings.TrimPrefix(args[0], "etcd/"), "etcds/")
	} else if name, err = s.onlyName(ctx); err != nil {
		return nil, nil, err
	}
	stored = &druidv1alpha1.Etcd{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, stored); err != nil {
		return nil, nil, explain(err)
	}
	canonical, errs := helper.Canonical(stored)
	if len(errs) > 0 {
		return nil, nil, fmt.Errorf("etcd %s contradicts itself: %w", name, errs.ToAggregate())
	}

	return stored, canonical, nil
}

func (s *session) onlyName(ctx context.Context) (string, error) {
	names, err := s.names(ctx)
	switch {
	case err != nil:
		return "", err
	case len(names) == 1:
		return names[0], nil
	case len(names) == 0:
		return "", fmt.Errorf("namespace %s has no Etcd; choose another with -n", s.namespace)
	default:
		return "", usageError{fmt.Errorf("namespace %s has %d Etcds, name one of %s", s.namespace, len(names), strings.Join(names, ", "))}
	}
}

// explain adds the remedy to known errors.
func explain(err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("this cluster knows no Etcds; is this the kubeconfig of a seed? (%w)", err)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "is forbidden: User "): // and not by what admits requests
		return fmt.Errorf("you lack the rights: %w", err)
	default:
		return err
	}
}

// observer reads with the rights of the person, and talks to members through the API server.
func (s *session) observer(ctx context.Context) *observer.Observer {
	return &observer.Observer{
		Reader: s, APIReader: s, Unindexed: true,
		Gardener: s.hasKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(extensionsv1alpha1.BackupEntryResource)),
		Garden:   s.hasKind(operatorv1alpha1.SchemeGroupVersion.WithKind("Garden")),
		Etcd:     etcdclient.NewPoolThrough(s.dialer(ctx), callTimeout, s.clock),
		// Opening the way takes a part of it.
		MembersTimeout: 3 * callTimeout,
	}
}
