// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

// Version is the highest version of the record that this operator reads, and the version that it writes. A record of a higher version has a meaning that
// this operator cannot know, and it changes nothing then. The version increases with a state that earlier versions of the operator must not continue.
// All lower versions stay readable.
const Version = 1
