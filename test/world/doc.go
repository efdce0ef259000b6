// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package world is a seed in memory: an API server, the controllers that an etcd cluster lives from (the resource manager,
// those of StatefulSets and Jobs, garbage collector, scheduler, kubelets) and the members themselves with their sidecars and their
// backup store. Everything in it is deterministic and goes by a clock of its own, and at any moment the whole of it can be copied (Fork).
//
// What may not live here: assertions, stories, and anything that knows the operator beyond its API types and names.
package world
