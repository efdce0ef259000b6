// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
)

// TickDuration is the time between two ticks.
const TickDuration = 5 * time.Second

// maxMembers is the number of claims and nodes of a new cluster.
const maxMembers = 7

// Settings are the properties of the environment. The caller may change them at any time.
type Settings struct {
	// CatchUpTicks is the number of ticks that a learner needs to catch up.
	CatchUpTicks int
	// SnapshotDuration is the duration of a full snapshot. 0: it ends at once.
	SnapshotDuration time.Duration
	// RestoreDelay is how long a sidecar tries to start etcd with a database that is older than the store, before it restores the store. 0: it restores
	// at once.
	RestoreDelay time.Duration
	// NetworkVolumes is true if a volume can be used on every node.
	NetworkVolumes bool
	// FixedVolumes is true if the StorageClass does not allow volume expansion.
	FixedVolumes bool
	// OfflineExpansion is true if a file system is expanded only when a pod mounts it.
	OfflineExpansion bool
	// StrictPorts is true if a member is unreachable at another port than it listens at.
	StrictPorts bool
	// SlowOrphaning is true if a StatefulSet that is deleted without its pods is gone after the next tick only, as the garbage collector
	// works. gardener-resource-manager then applies the ManagedResource before it is gone. False: it is gone at once.
	SlowOrphaning bool
	// KeysSize is the size of the keys without their history in bytes. 0: half of the quota.
	KeysSize int64
	// StaleSizes is true if members report the space that a compaction has freed only after their defragmentation. Members of etcd 3.4 and 3.5 do so
	// without later writes.
	StaleSizes bool
	// Sequential is true if only the first component that has work acts in a tick. The components of a node count as one, which acts until
	// nothing changes. False: each component acts once in each tick.
	Sequential bool
	// NewUID returns the UID of a new object of the kind. Nil: UIDs are numbered.
	NewUID func(kind string) types.UID
}

// Cluster is the cluster of one Etcd. Its exported fields are the state of the simulation. A test may change them where no method injects
// what it needs.
type Cluster struct {
	Settings

	// Etcd is the object whose cluster this is. The caller changes its spec.
	Etcd *druidv1alpha1.Etcd
	// Objects are the objects in the API server, and the last responses of the members. See Refresh for the parts that are derived.
	Objects etcdcluster.Observation
	// Members are the voting members and the learners that etcd lists.
	Members []*Member
	// Leader is the ID of the leader. 0: there is none.
	Leader uint64
	// Nodes are the nodes on which pods can run.
	Nodes []*Node
	// Volumes are the volumes, by the names of their claims.
	Volumes map[string]*Volume
	// Released are the volumes that exist without their claims.
	Released []*Volume
	// Store is the backup store.
	Store history.Store
	// Data is the newest data of the cluster.
	Data history.Position
	// Alarms are the alarms of etcd that are raised.
	Alarms []etcdcluster.Alarm
	// Acknowledged are the writes of Write.
	Acknowledged history.Acknowledged
	// Incidents state what etcd and its sidecars did that lost or divided the data of the cluster. A correct operator causes none.
	Incidents []string
	// HasRunForeignData is true from the moment when a pod ran on the data of another cluster.
	HasRunForeignData bool

	// updateStrategy is the default of the operator, which decides whether it queries the members.
	updateStrategy druidv1alpha1.UpdateStrategy
	// written is in the ManagedResource. applied is what gardener-resource-manager has applied of it. Nil: nothing.
	written, applied *Manifest
	now              time.Time
	nextUID          int
	nextVolume       int
	nextID           uint64
	clusterID        uint64
	processes        map[types.UID]*Process
	brokenImages     map[string]bool
	brokenClasses    map[string]bool
	foreignData      map[int]bool
	// existing are the members of the cluster that the Etcd joins, by their ordinals. Nil: it joins none.
	existing         map[int]*existingMember
	refusedEvictions int
	quotaExhausted   bool
	// refusedAt is when the API server refused a larger request of a claim, by the UID of the claim.
	refusedAt map[types.UID]time.Time
	// spaceStep is the step whose call frees space, and spaceStartedAt when it began. Nil: there is no such call.
	spaceStep      plan.Step
	spaceStartedAt time.Time
	// recovering is the step that has created the last Job of a recovery.
	recovering plan.RecoverData
	// isCompacted is true if the history of full databases was removed.
	isCompacted bool
	// trusted caches whether members with two sets of Secrets verify each other.
	trusted map[[2]etcdcluster.MountedTLS]bool
	// statuses are the endpoint statuses of a real cluster, by member ID. They hold what the simulation does not change.
	statuses map[uint64]etcdcluster.EndpointStatus
}

// Member is a member as etcd lists it.
type Member struct {
	// ID of the member.
	ID uint64
	// Ordinal of its pod.
	Ordinal int
	// Learner is true until the member is promoted.
	Learner bool
	// CaughtUp is the number of ticks in which a learner has received data.
	CaughtUp int
	// PeerURLs are the registered peer URLs.
	PeerURLs []string
	// Started is false for a learner that was added and has not run. It has no name.
	Started bool
	// NeedsSnapshot is true for a voting member that was away for so many writes that it needs a raft snapshot. The leader sends it if it can
	// dial the member. Until then the member does not respond.
	NeedsSnapshot bool
}

const (
	// firstID is lower than the IDs of all members. No member has joined yet if the last ID is firstID.
	firstID = 0xa0
	// foreignClusterID is the ID of the cluster of foreign data.
	foreignClusterID = 0xf0e
)

// New returns the cluster of an Etcd that was never rendered.
func New(etcd *druidv1alpha1.Etcd, now time.Time) *Cluster {
	c := empty(etcd, now)
	c.CatchUpTicks, c.clusterID, c.nextID = 2, 1, firstID
	c.Objects.ManagedResource.Name = helper.ManagedResourceName(etcd)
	for ordinal := range maxMembers {
		c.Objects.Claims = append(c.Objects.Claims, etcdcluster.Claim{Name: helper.ClaimName(etcd, ordinal), Ordinal: ordinal})
		c.Nodes = append(c.Nodes, &Node{Name: fmt.Sprintf("n%d", ordinal+1)})
	}
	c.Refresh()

	return c
}

func empty(etcd *druidv1alpha1.Etcd, now time.Time) *Cluster {
	return &Cluster{
		Etcd: etcd, now: now, Data: history.New(), Volumes: map[string]*Volume{}, processes: map[types.UID]*Process{}, brokenImages: map[string]bool{}, brokenClasses: map[string]bool{},
		refusedAt: map[types.UID]time.Time{}, statuses: map[uint64]etcdcluster.EndpointStatus{}, trusted: map[[2]etcdcluster.MountedTLS]bool{},
	}
}

// Now returns the time of the simulation.
func (c *Cluster) Now() time.Time { return c.now }

// Advance lets time pass without a tick. No component acts.
func (c *Cluster) Advance(duration time.Duration) { c.now = c.now.Add(duration) }

func (c *Cluster) uid(kind string) types.UID {
	if c.NewUID != nil {
		return c.NewUID(kind)
	}
	c.nextUID++

	return types.UID(fmt.Sprintf("%s-%d", kind, c.nextUID))
}

func (c *Cluster) report(format string, args ...any) {
	c.Incidents = append(c.Incidents, c.now.Format("15:04:05")+" "+fmt.Sprintf(format, args...))
}

// Tick lets TickDuration pass and lets the components act. True: any of them changed something.
func (c *Cluster) Tick() bool {
	c.now = c.now.Add(TickDuration)
	if c.Sequential {
		return c.tickSequentially()
	}
	changed := c.endCalls()
	components := []func() bool{
		c.resourceManager, c.statefulSetController, c.podCollector, c.volumeController, c.scheduler, c.kubelet, c.sidecars, c.existingSidecars, c.elect, c.jobs,
	}
	for _, act := range components {
		changed = act() || changed
		c.Refresh()
	}
	c.RenewLeases()

	return changed
}

func (c *Cluster) tickSequentially() bool {
	for _, act := range []func() bool{c.endCalls, c.resourceManager, c.statefulSetController, c.podCollector, c.node, c.jobs} {
		if act() {
			c.Refresh()

			return true
		}
	}
	c.RenewLeases()

	return false
}

// node lets the components that start a pod act until nothing changes.
func (c *Cluster) node() bool {
	changed := false
	for again := true; again; changed = changed || again {
		again = false
		for _, act := range []func() bool{c.volumeController, c.scheduler, c.kubelet, c.sidecars, c.elect} {
			again = act() || again
		}
	}

	return changed
}
