// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package drift compares live objects with what is rendered for them. An object has drifted if applying the rendering with
// gardener-resource-manager would change it. The package is pure: it reads and writes nothing.
package drift
