// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package resourcemanager runs the controllers of gardener-resource-manager in the process of the operator, for clusters
// without a gardener-resource-manager. Gardener's code applies ManagedResources. This package only decides what it may see and
// write: the operator has more permissions than most users who can create ManagedResources and Secrets.
//
//   - The controllers watch only ManagedResources with the origin of this operator. They ignore those that do not have the name
//     for an existing Etcd ([decide]).
//   - They apply only what the operator rendered. The controller etcd records the checksum of each payload in [Renderings] before
//     it writes the payload. The payload is compared with this checksum when it is read, and these bytes are applied. This does
//     not depend on the protection of the Etcd.
//   - They write only kinds that the operator renders, only in the namespace of the ManagedResource. They change no object that
//     another controller owns, and delete only objects that the Etcd owns ([target]).
//   - They ignore fields of the ManagedResource that the operator does not set, and references in its status to other kinds or
//     namespaces ([sanitize]). A user may have written them.
//   - The garbage collector deletes only payloads of this operator ([collector]).
//
// # Why the checksums are in memory
//
// A checksum on the ManagedResource or the Etcd proves nothing, because users can write it. A checksum that is signed with a key
// proves that the operator rendered the payload at some time. A user could then restore an older payload. The checksum in memory
// is that of the latest rendering.
//
// After a restart or an update, nothing is applied to an Etcd until the operator has rendered it. The applied objects stay. The
// operator reconciles all Etcds when it starts. It renders the newest generation, or the last accepted one if the newest is
// blocked. The checksum then triggers the application. The operator does not render a suspended Etcd, or one whose Secrets are
// missing. The objects of such an Etcd are not repaired either. A ManagedResource that is being deleted needs no checksum.
package resourcemanager
