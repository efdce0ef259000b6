// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package dbsize predicts when the keys in a database of etcd need its quota.
//
// What may not live here: clients, clocks, and what follows from a prediction (see package conditions).
package dbsize
