// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// LocalRoots are the directories of nodes in which Local stores may keep their folders, as absolute paths without trailing slash.
// Empty: Local stores are refused.
type LocalRoots []string

// RootsKey is the key of the operator's configuration that lists the LocalRoots.
const RootsKey = "localStore.roots"

// Directory returns the directory of the node in which the folder of a Local store is, of which a pod mounts the folder. Empty: the folder
// is not that of the store.
func (s Store) Directory(folder string) string {
	directory, isFolder := strings.CutSuffix(folder, "/"+s.Container)
	if s.Provider != ProviderLocal || !isFolder {
		return ""
	}

	return directory
}

// Locate returns a Local store with its directory of the node, and any other store as it is. The directory is the HostPath of the store;
// else hostPath, which the Secret of the store has under KeyHostPath; else DefaultHostPath. The error says why the operator does not mount
// the folder: its directory is none of the roots, or the container is not exactly one path segment.
func (r LocalRoots) Locate(store Store, hostPath string) (Store, error) {
	if store.Provider != ProviderLocal {
		return store, nil
	}
	if name := store.Container; name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return store, fmt.Errorf("container %q of the Local store is not the name of a single folder: set a name without slashes", name)
	}
	root := cmp.Or(store.HostPath, hostPath, DefaultHostPath)
	if slices.Contains(r, root) {
		store.HostPath = root
		return store, nil
	}

	subject := fmt.Sprintf("the Local store is in directory %q on the node", root)
	if root == hostPath {
		subject = fmt.Sprintf("key %s of Secret %s names directory %q on the node", KeyHostPath, store.SecretName, root)
	}
	switch {
	case !path.IsAbs(root) || path.Clean(root) != root:
		return store, fmt.Errorf("%s, which is not an absolute path in its shortest form: remove relative segments and trailing slashes", subject)
	case len(r) == 0:
		return store, fmt.Errorf("%s, but %s of the operator's configuration lists no directory: add it there, or use another provider", subject, RootsKey)
	default:
		return store, fmt.Errorf("%s, but %s of the operator's configuration lists only %s: name one of these under key %s of the store's Secret, or add the directory to the configuration",
			subject, RootsKey, strings.Join(r, ", "), KeyHostPath)
	}
}
