// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Stub responds in place of all members.
type Stub struct {
	// Client renews Leases and reads certificates, without a cache.
	Client client.Client
	// Pods has an informer for the pods of all Etcds.
	Pods cache.Cache
	Log  logr.Logger

	registry     *registry
	certificates sync.Map

	lock           sync.Mutex
	revisionBefore int64
	revisionRate   float64
	revisionSince  time.Time
}

// New returns a Stub.
func New(c client.Client, pods cache.Cache, log logr.Logger) *Stub {
	return &Stub{Client: c, Pods: pods, Log: log, registry: newRegistry(), revisionBefore: firstRevision, revisionSince: time.Now()}
}

// Lose makes the members on a node stop to respond and to renew their Leases.
func (s *Stub) Lose(node string) { s.registry.lose(node, true) }

// Run serves the members until the context ends.
func (s *Stub) Run(ctx context.Context) error {
	informer, err := s.Pods.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("watching the pods: %w", err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.set(object) },
		UpdateFunc: func(_, object any) { s.set(object) },
		DeleteFunc: func(object any) {
			if last, is := object.(toolscache.DeletedFinalStateUnknown); is {
				object = last.Obj
			}
			if pod, is := object.(*corev1.Pod); is {
				s.registry.delete(pod)
			}
		},
	}); err != nil {
		return fmt.Errorf("watching the pods: %w", err)
	}
	etcd, err := s.listen(":"+clientPort, func(m *member) string { return m.clientSecret })
	if err != nil {
		return err
	}
	sidecar, err := s.listen(":"+backupPort, func(m *member) string { return m.backupSecret })
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.serve(ctx, etcd, s.etcdHandler()) })
	group.Go(func() error { return s.serve(ctx, sidecar, s.sidecarHandler()) })
	group.Go(func() error {
		s.renewLeases(ctx)

		return nil
	})

	return group.Wait()
}

func (s *Stub) set(object any) {
	if pod, is := object.(*corev1.Pod); is {
		s.registry.set(pod, time.Now())
	}
}
