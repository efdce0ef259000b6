// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package opstask is the controller of EtcdOpsTasks. It reads the cluster, calls opstask.Task.Decide, and executes the returned
// action. Long calls run outside its workers. A second controller creates tasks for the annotation
// druid.gardener.cloud/run-task of an Etcd.
//
// What may not live here: decisions, and the protocols of sidecars and members.
package opstask
