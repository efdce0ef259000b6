// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package opstask is the controller of EtcdOpsTasks: it reads what there is, has etcdcluster.Task decide, and does the one thing
// that it says. What takes long runs beside its workers. A second, small controller makes tasks of the annotation
// druid.gardener.cloud/run-task of an Etcd.
//
// What may not live here: decisions, and how sidecars and members are talked to.
package opstask
