// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

// CapabilitiesOf exports capabilitiesOf and ImageIn exports imageIn for tests.
func CapabilitiesOf(isSeed bool, version, nextSidecar string) (Capabilities, error) {
	return capabilitiesOf(isSeed, version, nextSidecar)
}
func ImageIn(vector, name string) string { return imageIn(vector, name) }
