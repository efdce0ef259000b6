// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import "fmt"

// Procedure describes the change of the members, or of their data, that is in progress, such as "the scale-in to 3 members". Meanwhile no EtcdOpsTask
// defragments a member, and the Etcd is not handed back to etcd-druid. Empty: none is in progress.
func (s State) Procedure() string {
	switch {
	case s.Restore == RestoreRecover:
		return "the recovery from a lost quorum"
	case s.Restore != RestoreNone:
		return "the restore from the backup store"
	case s.Existing != nil && s.Existing.Voters > 0:
		return "the removal of the members of the joined cluster"
	case s.Surge.IsActive():
		return "the surge with two voting members"
	case s.Migration.IsActive():
		return "the volume migration"
	case s.ScaleIn != nil:
		return fmt.Sprintf("the scale-in to %d members", s.ScaleIn.To)
	case s.Inconsistency != nil:
		return "the replacement of members with different data"
	default:
		return ""
	}
}
