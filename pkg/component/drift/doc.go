// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package drift compares live objects with their rendering. An object has drifted if gardener-resource-manager would change it
// by applying the rendering. The package is pure: it reads and writes nothing.
package drift
