// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"cmp"
	"path"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Overlap is true if the sidecar of one store lists the snapshots of the other at the same endpoint and in the same account. A sidecar lists
// all objects whose names begin with its prefix. With the prefix "a/b" these include "a/b/c" and "a/b2". It restores from these objects, and
// deletes old ones. In a Local store it lists a directory.
func Overlap(a, b state.Store) bool {
	return a.Provider == b.Provider && a.Container == b.Container && overlap(Provider(a.Provider), a.Prefix, b.Prefix)
}

// Collide is true if two stores Overlap and are at the same endpoint and in the same account. What one record lacks is unknown, and nothing
// collides then. See Conflict.
func Collide(a, b state.Store) bool {
	if !Overlap(a, b) {
		return false
	}
	if Provider(a.Provider) == ProviderLocal {
		return isSameKnown(a.HostPath, b.HostPath)
	}

	return isSameKnown(possibleService(a.Endpoint), possibleService(b.Endpoint)) && (!hasAccounts(Provider(a.Provider)) || isSameKnown(a.Account, b.Account))
}

// Conflict is true if the stores of objects in two namespaces Collide. Within one namespace they also do with the same Secret, if their endpoints,
// accounts and directories are the same or unknown to both.
func Conflict(namespaceA string, a state.Store, namespaceB string, b state.Store) bool {
	hasSameSecret := namespaceA == namespaceB && a.SecretName != "" && a.SecretName == b.SecretName
	isSame := possibleService(a.Endpoint) == possibleService(b.Endpoint) && a.Account == b.Account && a.HostPath == b.HostPath

	return Collide(a, b) || Overlap(a, b) && hasSameSecret && isSame
}

// possibleService returns the same text for all endpoints that may be one Service: `name.namespace`, `name.namespace.svc`, and the latter with
// any domain. The first one may also be another host, and the domain that of another cluster. Different stores may then be reported as one. That
// costs a user another prefix; the opposite error lets two clusters restore each other's data. A change of the endpoint is compared with
// Store.HasSameIdentity, which does not take different hosts for one.
func possibleService(endpoint string) string {
	host, rest := splitEndpoint(endpoint)
	labels := strings.SplitN(host, ".", 4)
	if len(labels) < 3 || labels[2] != "svc" {
		return host + rest
	}

	return labels[0] + "." + labels[1] + rest
}

// IsIdentified is true for a store of which everything is known that Collide compares.
func IsIdentified(store state.Store) bool {
	if Provider(store.Provider) == ProviderLocal {
		return store.HostPath != ""
	}

	return store.Endpoint != "" && (store.Account != "" || !hasAccounts(Provider(store.Provider)))
}

// hasAccounts is true for providers whose containers have unique names only within an account.
func hasAccounts(provider Provider) bool { return provider == ProviderABS || provider == ProviderSwift }

func isSameKnown(a, b string) bool { return a != "" && a == b }

// overlap is true if one prefix begins with the other.
func overlap(provider Provider, a, b string) bool {
	a, b = clean(a), clean(b)
	if provider == ProviderLocal {
		a, b = a+"/", b+"/"
	}

	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// clean returns a prefix without slashes at its ends, doubled slashes and the segment ".": the sidecar joins paths in the same way.
func clean(prefix string) string { return strings.Trim(path.Clean("/"+prefix), "/") }

// UsedBy returns who prevents that the members of an Etcd start in its store. Nil: no object does.
//
// An EtcdCopyBackupsTask never prevents it if the members have started before. Otherwise the namespace decides:
//
//   - A task of the same namespace prevents it until the task ends.
//   - A task of another namespace prevents it while its Job may write. A task that only waits, for example for its Secret, does not: a task
//     needs no right in the store, and may wait without limit.
//
// UsedByEtcd applies the same rule to the copy. If neither has begun, both return nil for two namespaces, and calls.StoreReservations let one
// of them begin.
//
// Another Etcd prevents it if it precedes this one:
//
//  1. The Etcd with a full snapshot in the store precedes those without.
//  2. The Etcd whose members may have written to the store precedes those whose members have not.
//  3. The older Etcd precedes the younger one. Etcds of the same second are ordered by namespace, name and UID.
//
// Hibernated and suspended Etcds count. An Etcd that is being deleted counts until it is gone. A copy is returned first, or else the Etcd that
// precedes all others.
func UsedBy(etcd etcdcluster.StoreUser, others []etcdcluster.StoreUser) *etcdcluster.StoreUser {
	var user *etcdcluster.StoreUser
	for i := range others {
		switch other := &others[i]; {
		case !Conflict(etcd.Namespace, etcd.Store, other.Namespace, other.Store):
		case other.IsCopy && !etcd.Started && (other.Started || other.Namespace == etcd.Namespace):
			return other
		case !other.IsCopy && !isSameObject(etcd, *other) && precedes(*other, etcd) && (user == nil || precedes(*other, *user)):
			user = other
		}
	}

	return user
}

// UsedByEtcd returns the Etcd whose members may have written to a store that a copy of the namespace would write. Nil: there is none. An Etcd
// whose members have not started does not prevent the copy, see UsedBy.
func UsedByEtcd(namespace string, store state.Store, others []etcdcluster.StoreUser) *etcdcluster.StoreUser {
	for i := range others {
		if other := &others[i]; !other.IsCopy && other.Started && Conflict(namespace, store, other.Namespace, other.Store) {
			return other
		}
	}

	return nil
}

func isSameObject(a, b etcdcluster.StoreUser) bool {
	return a.Namespace == b.Namespace && a.Name == b.Name
}

// precedes is true if a may use the store and b may not.
func precedes(a, b etcdcluster.StoreUser) bool {
	return cmp.Or(
		-cmp.Compare(claim(a), claim(b)),
		a.CreationTime.Compare(b.CreationTime),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.UID, b.UID),
	) < 0
}

// claim is higher for an Etcd with a stronger claim to its store.
func claim(etcd etcdcluster.StoreUser) int {
	switch {
	case etcd.Started && !etcd.Store.VerifiedAt.IsZero():
		return 2
	case etcd.Started:
		return 1
	default:
		return 0
	}
}

// IndexKeys returns the keys under which a store is found by LookupKeys of a store that collides with it.
func IndexKeys(store state.Store) []string {
	directories := directoriesOf(store.Prefix)
	keys := []string{indexKey(store, "in", directories[len(directories)-1])}
	for _, directory := range directories {
		keys = append(keys, indexKey(store, "below", directory))
	}

	return keys
}

// LookupKeys returns the keys of all stores with which a store may collide.
func LookupKeys(store state.Store) []string {
	directories := directoriesOf(store.Prefix)
	keys := []string{indexKey(store, "below", directories[len(directories)-1])}
	for _, directory := range directories[:len(directories)-1] {
		keys = append(keys, indexKey(store, "in", directory))
	}

	return keys
}

// directoriesOf are the directories that contain a prefix, beginning with that of the container.
func directoriesOf(prefix string) []string {
	directories := []string{""}
	segments := strings.Split(clean(prefix), "/")
	for i := range segments[:len(segments)-1] {
		directories = append(directories, strings.Join(segments[:i+1], "/"))
	}

	return directories
}

func indexKey(store state.Store, relation, directory string) string {
	return strings.Join([]string{relation, store.Provider, store.Container, directory}, "|")
}
