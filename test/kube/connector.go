// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Connector returns clients of the members that call onWrite before and after each change of the cluster. If onWrite is nil, they call
// nothing.
func (k *Cluster) Connector(onWrite func(Write)) etcdclient.Connector {
	return connector{cluster: k, onWrite: onWrite}
}

type connector struct {
	cluster *Cluster
	onWrite func(Write)
}

func (c connector) Connect(ctx context.Context, target etcdclient.Target) (etcdclient.Client, error) {
	client, err := c.cluster.etcd.Connect(ctx, target)
	return member{Client: client, connector: c}, err
}

func (connector) Disconnect(etcdclient.Target) {}

type member struct {
	etcdclient.Client
	connector
}

// MoveLeader implements etcdclient.Client.
func (m member) MoveLeader(ctx context.Context, to uint64) error {
	return m.write(fmt.Sprintf("move the leader to %x", to), func() error { return m.Client.MoveLeader(ctx, to) })
}

// UpdatePeerURLs implements etcdclient.Client.
func (m member) UpdatePeerURLs(ctx context.Context, id uint64, urls []string) error {
	return m.write(fmt.Sprintf("update the peer URLs of %x to %v", id, urls), func() error { return m.Client.UpdatePeerURLs(ctx, id, urls) })
}

// Promote implements etcdclient.Client.
func (m member) Promote(ctx context.Context, learner uint64) error {
	return m.write(fmt.Sprintf("promote %x", learner), func() error { return m.Client.Promote(ctx, learner) })
}

// RemoveMember implements etcdclient.Client.
func (m member) RemoveMember(ctx context.Context, id uint64) error {
	return m.write(fmt.Sprintf("remove %x", id), func() error {
		m.cluster.checkRemoval(id)

		return m.Client.RemoveMember(ctx, id)
	})
}

// RejectWrites implements etcdclient.Client.
func (m member) RejectWrites(ctx context.Context) (revision int64, err error) {
	err = m.write("reject writes", func() (err error) {
		revision, err = m.Client.RejectWrites(ctx)

		return err
	})

	return revision, err
}

// AllowWrites implements etcdclient.Client.
func (m member) AllowWrites(ctx context.Context) error {
	return m.write("allow writes", func() error { return m.Client.AllowWrites(ctx) })
}

// Compact implements etcdclient.Client.
func (m member) Compact(ctx context.Context, revision int64) error {
	return m.write(fmt.Sprintf("compact the history up to revision %d", revision), func() error { return m.Client.Compact(ctx, revision) })
}

// Disarm implements etcdclient.Client.
func (m member) Disarm(ctx context.Context, alarm etcdcluster.Alarm) error {
	return m.write(fmt.Sprintf("disarm the alarm %s of %x", alarm.Type, alarm.MemberID), func() error { return m.Client.Disarm(ctx, alarm) })
}

// Defragment implements etcdclient.Client.
func (m member) Defragment(ctx context.Context) error {
	return m.write("defragment", func() error { return m.Client.Defragment(ctx) })
}

func (c connector) write(what string, do func() error) error {
	return report(c.onWrite, what, do)
}

// report calls onWrite before and after a write. Nil: it only writes.
func report(onWrite func(Write), what string, do func() error) error {
	if onWrite == nil {
		return do()
	}
	onWrite(Write{What: what})
	err := do()
	onWrite(Write{What: what, Done: true, Err: err})
	return err
}
