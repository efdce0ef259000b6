// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ValuesFor returns the values for the input.
func ValuesFor(Input) (Values, error) { return Values{}, errors.New("not implemented") }

// Objects returns what goes into the ManagedResource, sorted by kind and name.
func Objects(Values) ([]client.Object, error) { return nil, errors.New("not implemented") }

// MemberLeases returns one lease a member.
func MemberLeases(Values) []*coordinationv1.Lease { return nil }

// SnapshotLeases returns the leases of full and delta snapshots. Empty without a store.
func SnapshotLeases(Values) []*coordinationv1.Lease { return nil }
