// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Members returns status.members: the desired members with a known state. LastTransitionTime changes only with the status of
// the member.
func Members(in Input) []druidv1alpha1.EtcdMemberStatus {
	var entries []druidv1alpha1.EtcdMemberStatus
	for _, member := range in.members() {
		entry := druidv1alpha1.EtcdMemberStatus{
			Name:               member.Name,
			Status:             member.Status,
			Reason:             member.Reason,
			LastTransitionTime: metav1.NewTime(in.Now.Truncate(time.Second)),
		}
		versions := member.Versions()
		entry.EtcdVersion, entry.WrapperVersion, entry.SidecarVersion = orNil(versions.Etcd), orNil(versions.Wrapper), orNil(versions.Sidecar)
		if id := member.ID(); id != 0 {
			entry.ID = new(etcdcluster.FormatID(id))
		}
		if role := member.Role(); role != "" {
			entry.Role = &role
		}
		for _, before := range in.Etcd.Status.Members {
			if before.Name == entry.Name && before.Status == entry.Status {
				entry.LastTransitionTime = before.LastTransitionTime
			}
		}
		entries = append(entries, entry)
	}

	return entries
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}

	return &text
}
