// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

// Exponent is exponent, and Number is number.
var (
	Exponent = exponent
	Number   = number
)
