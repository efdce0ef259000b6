// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package validation checks an OperatorConfiguration after its defaults were applied. It reads nothing but its
// argument: whether a file exists or a port is free is found out by whoever uses it.
package validation
