// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package process

// ParseStat exports parseStat for tests.
var ParseStat = parseStat
