// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package observer reads a cluster, from the API server and from its members, into one etcdcluster.Observation.
//
// This package evaluates nothing that it reads, and writes nothing.
package observer
