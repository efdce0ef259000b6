// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package linearizability records the requests of concurrent clients of an etcd cluster, and checks whether their responses are linearizable. The
// model of etcd and the check are those of the robustness tests of etcd (https://github.com/etcd-io/etcd/tree/main/tests/robustness).
//
// The package is a module of its own, because these tests depend on another version of etcd. The end-to-end tests run its test binary. It may not
// contain what the operator or the local seed does meanwhile.
package linearizability
