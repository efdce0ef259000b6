// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build

// Install exports install for tests.
func (b Builder) Install(m Module, built string) error { return b.install(m, built) }

// Plan returns what the steps of each lane build.
func Plan(b Builder, modules ...Module) [lanes][]string {
	var names [lanes][]string

	for lane, steps := range b.plan(modules) {
		for _, s := range steps {
			names[lane] = append(names[lane], s.what)
		}
	}

	return names
}

// Command returns the command of the first step.
func Command(b Builder, modules ...Module) []string { return b.plan(modules)[0][0].command }
