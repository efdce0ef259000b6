// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package validation checks an OperatorConfiguration after its defaults were applied. It reads only its argument. It
// does not check whether a file exists or a port is free.
package validation
