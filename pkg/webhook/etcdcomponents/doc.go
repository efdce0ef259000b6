// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdcomponents protects what an Etcd consists of against everybody but those who look after it.
//
// Most of the protection needs no server of ours: ValidatingAdmissionPolicies of the chart
// (charts/gardener-extension-etcd-druid/templates/protection.yaml) tell our objects apart by a selector of labels, and read
// the Etcd as their parameter. The webhook is for what no selector of labels tells apart, scaling and issued Secrets: a policy
// looks its parameters up for every object that its selectors let through, so that it would either refuse them for objects of
// others while Etcds cannot be read, or let all of them through. The conditions of a webhook are weighed before anything is
// called, by themselves.
//
// The decision (decision.go) is that of the policies, for all kinds, since there are seeds on which gardenlet registers the
// webhook for all of them. One table tests both: test/integration/protection.
//
// What may not live here: anything that changes an object, and what an Etcd consists of beyond how it is recognised.
package etcdcomponents
