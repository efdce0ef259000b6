// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// ManagerOn is a manager whose controllers watch and read through the caches of another cluster object. A controller must not
// get events from one cache and read from another: if that one lags behind, an object appears deleted.
type ManagerOn struct {
	manager.Manager
	// Cluster has the caches, the clients and the scheme. It must be added to the manager.
	Cluster cluster.Cluster
}

// GetCache implements cluster.Cluster.
func (m ManagerOn) GetCache() cache.Cache { return m.Cluster.GetCache() }

// GetClient implements cluster.Cluster.
func (m ManagerOn) GetClient() client.Client { return m.Cluster.GetClient() }

// GetAPIReader implements cluster.Cluster.
func (m ManagerOn) GetAPIReader() client.Reader { return m.Cluster.GetAPIReader() }

// GetScheme implements cluster.Cluster.
func (m ManagerOn) GetScheme() *runtime.Scheme { return m.Cluster.GetScheme() }

// GetRESTMapper implements cluster.Cluster.
func (m ManagerOn) GetRESTMapper() meta.RESTMapper { return m.Cluster.GetRESTMapper() }

// GetFieldIndexer implements cluster.Cluster.
func (m ManagerOn) GetFieldIndexer() client.FieldIndexer { return m.Cluster.GetFieldIndexer() }
