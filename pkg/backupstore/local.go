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

// LocalRoots are the directories of nodes that may contain the folders of Local stores, as absolute paths without trailing
// slash. Empty: Local stores are refused.
type LocalRoots []string

// RootsKey is the key of the LocalRoots in the configuration of the operator.
const RootsKey = "localStore.roots"

// Directory returns the parent directory on the node of the folder that a pod mounts. Empty: the folder does not belong to the
// store.
func (s Store) Directory(folder string) string {
	directory, isFolder := strings.CutSuffix(folder, "/"+s.Container)
	if s.Provider != ProviderLocal || !isFolder {
		return ""
	}

	return directory
}

// Locate sets the HostPath of a Local store and returns other stores unchanged. The first value that is not empty wins: the
// HostPath of the store, hostPath, or DefaultHostPath. hostPath is the value of KeyHostPath in the Secret of the store. The
// error states why the operator does not mount the folder. Either its directory is not one of the roots, or the container is
// not exactly one path segment.
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
