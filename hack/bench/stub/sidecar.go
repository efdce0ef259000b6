// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const (
	// heartbeatPeriod is the time between two renewals of the Lease of a member.
	heartbeatPeriod = 10 * time.Second
	// DeltaPeriod is the time between two delta snapshots, as with gardenlet.
	DeltaPeriod = 5 * time.Minute
	// writers is the number of Leases that are renewed at the same time. Each real sidecar is a process of its own.
	writers = 8
)

// sidecarHandler serves the HTTP endpoints of the sidecar that the operator calls.
func (s *Stub) sidecarHandler() http.Handler {
	mux := http.NewServeMux()
	full := func(w http.ResponseWriter, r *http.Request) {
		m, now := memberFor(r.Context()), time.Now()
		if !m.hasStore {
			http.Error(w, "no store", http.StatusMethodNotAllowed)

			return
		}
		if err := s.recordSnapshot(r.Context(), m, "full", s.revision()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)

			return
		}
		respondJSON(w, snapshotOf(s.revision(), now, r.URL.Query().Get("final") == "true"))
	}
	mux.HandleFunc("GET /snapshot/full", full)
	mux.HandleFunc("GET /snapshot/delta", func(w http.ResponseWriter, _ *http.Request) { respondJSON(w, nil) })
	mux.HandleFunc("GET /snapshot/latest", func(w http.ResponseWriter, r *http.Request) {
		respondJSON(w, map[string]any{"fullSnapshot": snapshotOf(s.revision(), memberFor(r.Context()).started, false), "deltaSnapshots": nil})
	})

	return mux
}

// snapshotOf returns a full snapshot in the form of the sidecar.
func snapshotOf(revision int64, created time.Time, final bool) map[string]any {
	return map[string]any{
		"kind": "Full", "startRevision": 0, "lastRevision": revision, "createdOn": created.UTC(), "isFinal": final,
		"snapName": fmt.Sprintf("Full-00000000-%08d-%d.gz", revision, created.Unix()),
	}
}

func respondJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// renewal is the state of the Leases of one member.
type renewal struct {
	nextHeartbeat, nextDelta time.Time
	// hasFull is true if the first full snapshot was recorded.
	hasFull bool
}

// renewLeases renews the Leases of all members until the context ends.
func (s *Stub) renewLeases(ctx context.Context) {
	work := make(chan func(), 1000)
	for range writers {
		go func() {
			for task := range work {
				task()
			}
		}()
	}
	defer close(work)
	renewals := map[*member]*renewal{}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		current := s.registry.all()
		for m := range renewals {
			if !s.registry.isCurrent(m) {
				delete(renewals, m)
			}
		}
		for _, m := range current {
			s.renewDue(ctx, time.Now(), m, renewals, work)
		}
	}
}

// renewDue adds the due renewals of a member to the work. A sidecar takes a full snapshot when it starts. The first heartbeat of the
// stub is earlier than that of the sidecar, to shorten the measurement of the creation.
func (s *Stub) renewDue(ctx context.Context, now time.Time, m *member, renewals map[*member]*renewal, work chan<- func()) {
	r := renewals[m]
	if r == nil {
		r = &renewal{nextHeartbeat: now, nextDelta: now.Add(DeltaPeriod)}
		renewals[m] = r
	}
	if !now.Before(r.nextHeartbeat) {
		r.nextHeartbeat = r.nextHeartbeat.Add(heartbeatPeriod)
		work <- func() { _ = s.heartbeat(ctx, m) }
	}
	if !m.hasStore {
		return
	}
	revision := s.revision()
	if !r.hasFull {
		r.hasFull = true
		work <- func() { _ = s.recordSnapshot(ctx, m, "full", revision) }
	}
	if !now.Before(r.nextDelta) {
		r.nextDelta = r.nextDelta.Add(DeltaPeriod)
		work <- func() { _ = s.recordSnapshot(ctx, m, "delta", revision) } // the sidecar renews the Lease also without new revisions
	}
}

// heartbeat renews the Lease of a member as its sidecar does.
func (s *Stub) heartbeat(ctx context.Context, m *member) error {
	role := druidv1alpha1.EtcdRoleMember
	if s.leader(m) == m.id {
		role = druidv1alpha1.EtcdRoleLeader
	}

	return s.patchLease(ctx, client.ObjectKey{Namespace: m.pod.Namespace, Name: m.pod.Name}, etcdcluster.Heartbeat{MemberID: m.id, ClusterID: m.clusterID, Role: role}.String(),
		map[string]string{druidv1alpha1.MemberTLSEnabledAnnotation: strconv.FormatBool(m.peerSecret != "")})
}

// recordSnapshot renews the Lease of the full or delta snapshots.
func (s *Stub) recordSnapshot(ctx context.Context, m *member, kind string, revision int64) error {
	return s.patchLease(ctx, client.ObjectKey{Namespace: m.pod.Namespace, Name: m.etcdName() + "-" + kind + "-snap"}, strconv.FormatInt(revision, 10), nil)
}

func (s *Stub) patchLease(ctx context.Context, key client.ObjectKey, holder string, annotations map[string]string) error {
	patch := map[string]any{"spec": map[string]any{"holderIdentity": holder, "renewTime": metav1.NowMicro()}}
	if len(annotations) > 0 {
		patch["metadata"] = map[string]any{"annotations": annotations}
	}
	content, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := s.Client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, content)); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		s.Log.Error(err, "Cannot renew a Lease", "lease", key)

		return err
	}

	return nil
}
