// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdcomponents protects the objects of an Etcd against changes by users other than the operator.
//
// Most of the protection needs no server: ValidatingAdmissionPolicies of the chart
// (charts/gardener-extension-etcd-druid/templates/protection.yaml) select the objects by labels, and read the Etcd as their
// parameter. The webhook covers what no label selector selects: scaling and issued Secrets. A policy reads its parameters for
// every object that its selectors match. While Etcds cannot be read, it would therefore refuse or allow the requests for all
// these objects, including those of other owners. The API server evaluates the match conditions of a webhook before the call,
// without parameters.
//
// The decision (decision.go) is the same as that of the policies. It covers all kinds, because on some seeds gardenlet
// registers the webhook for all of them. One table tests both: test/integration/protection.
//
// What may not live here: anything that changes an object, and knowledge of the objects beyond how they are identified.
package etcdcomponents
