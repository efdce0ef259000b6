// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package plan holds the types in which the planner returns its decision. A Plan has a stage, texts, the size to render and at most
// one Step.
//
// What may not live here: decisions (see package planner), facts about a cluster (see package etcdcluster), clients and clocks.
package plan
