// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/replay"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// histories is the number of random histories. Their seeds are their numbers.
const histories = 10

// history is an etcd with random writes, whose snapshots are stored as the sidecar does.
type history struct {
	random  *rand.Rand
	dir     string
	backend backend.Backend
	store   mvcc.WatchableKV
	watch   mvcc.WatchStream
	pending []snapshots.Event
	// stored is the revision of the last snapshot.
	stored int64
	live   []replay.Live
}

func newHistory(seed uint64) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 0)), dir: GinkgoT().TempDir()}
	h.backend = backend.NewDefaultBackend(zap.NewNop(), filepath.Join(h.dir, "live"))
	h.store = mvcc.New(zap.NewNop(), h.backend, &lease.FakeLessor{}, mvcc.StoreConfig{})
	h.watch = h.store.NewWatchStream()
	_, err := h.watch.Watch(0, []byte{0}, []byte{0xff}, 0)
	Expect(err).NotTo(HaveOccurred())

	return h
}

func (h *history) close() {
	h.watch.Close()
	Expect(h.store.Close()).To(Succeed())
	Expect(h.backend.Close()).To(Succeed())
}

// write writes or deletes random keys in a transaction.
func (h *history) write() {
	before := h.store.Rev()
	txn := h.store.Write(traceutil.TODO())
	for _, i := range h.random.Perm(8)[:1+h.random.IntN(4)] {
		key := fmt.Appendf(nil, "/key/%d", i)
		if h.random.IntN(3) == 0 {
			txn.DeleteRange(key, nil)
		} else {
			txn.Put(key, fmt.Appendf(nil, "%d", h.random.Int()), lease.LeaseID(h.random.IntN(3)))
		}
	}
	txn.End()
	if h.store.Rev() == before {
		return
	}
	response := mvcc.WatchResponse{}
	Eventually(h.watch.Chan()).Should(Receive(&response))
	for _, event := range response.Events {
		h.pending = append(h.pending, snapshots.Event{Event: event, Time: time.Unix(event.Kv.ModRevision, 0)})
	}
}

// compact compacts a random revision, and waits for the end.
func (h *history) compact() {
	if h.store.Rev() < 3 {
		return
	}
	done, err := h.store.Compact(traceutil.TODO(), max(h.store.FirstRev(), 1)+h.random.Int64N(h.store.Rev()-max(h.store.FirstRev(), 1)+1))
	if err == nil {
		<-done
	}
}

// delta stores the events since the last snapshot.
func (h *history) delta() {
	if len(h.pending) == 0 {
		return
	}
	last := h.pending[len(h.pending)-1].Event.Kv.ModRevision
	h.put(snapshots.Name{Kind: snapshots.Delta, First: h.stored + 1, Last: last, Created: time.Unix(last, 0), Compression: ".gz"}, h.pending)
	h.stored, h.pending = last, nil
}

func (h *history) put(name snapshots.Name, events []snapshots.Event) {
	rewrite(snapshots.File{Name: name, Path: filepath.Join(h.dir, "v2", name.String())}, events)
}

// full stores a full snapshot. The sidecar discards the pending events.
func (h *history) full() {
	h.backend.ForceCommit()
	snapshot := h.backend.Snapshot()
	path := filepath.Join(h.dir, "snapshot")
	file, err := os.Create(path)
	Expect(err).NotTo(HaveOccurred())
	_, err = snapshot.WriteTo(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(file.Close()).To(Succeed())
	Expect(snapshot.Close()).To(Succeed())
	last := h.store.Rev()
	name := snapshots.Name{Kind: snapshots.Full, Last: last, Created: time.Unix(last, 0)}
	if _, err := os.Stat(filepath.Join(h.dir, "v2", name.String())); err == nil {
		return
	}
	Expect(snapshots.WriteFull(filepath.Join(h.dir, "v2"), name, path)).To(Succeed())
	h.stored, h.pending = last, nil
}

// report records what HashKV returns.
func (h *history) report() {
	hash, _, err := h.store.HashStorage().HashByRev(h.store.Rev())
	Expect(err).NotTo(HaveOccurred())
	h.live = append(h.live, replay.Live{Revision: hash.Revision, CompactRevision: max(hash.CompactRevision, 0), Hash: hash.Hash})
}

var _ = Describe("Replay of random histories", func() {
	It("should lead to each hash that etcd reported, at its revision and after all events", func() {
		compared, total := 0, 0
		for seed := range uint64(histories) {
			By(fmt.Sprintf("history %d", seed))
			h := newHistory(seed)
			Expect(os.Mkdir(filepath.Join(h.dir, "v2"), 0o700)).To(Succeed())
			h.write()
			h.full()
			for range 40 {
				h.write()
				switch h.random.IntN(12) {
				case 0:
					h.full()
				case 1, 2, 3:
					h.delta()
				case 4:
					h.compact()
				case 5, 6:
					h.report()
				}
			}
			h.report()
			h.delta()

			for _, live := range h.live {
				for _, target := range []int64{live.Revision, 0} {
					total++
					request := replay.Request{Snapshots: h.dir, Output: filepath.Join(h.dir, "output"), Revision: target, Live: &live, Log: zap.NewNop()}
					_, err := replay.Replay(request)
					if Expect(err).To(Or(Not(HaveOccurred()), MatchError(replay.ErrUnavailable)), "history %d, live %+v, target %d", seed, live, target); err == nil {
						compared++
						Expect(os.Remove(request.Output)).To(Succeed())
					}
				}
			}
			h.close()
		}
		GinkgoWriter.Println("compared", compared, "of", total)
		Expect(compared).To(BeNumerically(">", 4*histories))
	})
})
