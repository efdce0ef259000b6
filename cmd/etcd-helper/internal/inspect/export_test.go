// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package inspect

// Functions whose errors of a file system or a volume a test cannot cause.
var (
	File             = file
	RepeatAfterFault = repeatAfterFault[Result]
	WithoutDatabase  = withoutDatabase
)
