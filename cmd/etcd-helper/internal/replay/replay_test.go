// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/recorded"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/replay"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

var _ = Describe("Replay", func() {
	for _, version := range recorded.Versions {
		Describe("of etcd "+version, func() {
			var (
				root     string
				request  replay.Request
				reported recorded.Reported
				sets     []snapshots.Set
			)
			BeforeEach(func() {
				root = GinkgoT().TempDir()
				Expect(recorded.Unpack(version, root, "store", "restored")).To(Succeed())
				var err error
				reported, err = recorded.Read(version)
				Expect(err).NotTo(HaveOccurred())
				request = replay.Request{Snapshots: filepath.Join(root, "store"), Output: filepath.Join(root, "output"), Log: zap.NewNop()}
				sets, err = snapshots.Sets(request.Snapshots)
				Expect(err).NotTo(HaveOccurred())
			})

			DescribeTable("should create the database of a revision, with the HashKV and the keys that etcd reported",
				func(point func() recorded.Point, base int) {
					request.Revision = point().Revision
					request.Live = &replay.Live{Revision: point().Revision, CompactRevision: point().CompactRevision, Hash: point().Hash}

					result, err := replay.Replay(request)
					Expect(err).NotTo(HaveOccurred())
					Expect(result.Revision).To(Equal(point().Revision))
					Expect(result.Base).To(Equal(sets[base].Full.String()))
					Expect(result.Events).To(BeNumerically(">", 3))
					Expect(keysIn(request.Output, point().Revision)).To(Equal(point().Keys))
				},
				Entry("at the end of a delta snapshot", func() recorded.Point { return reported.Points.First }, 0),
				Entry("in a delta snapshot, after a lease expired", func() recorded.Point { return reported.Points.Middle }, 0),
				Entry("after a compaction of etcd, on a full snapshot before it", func() recorded.Point { return reported.Points.Compacted }, 0),
				Entry("on a full snapshot that is compacted", func() recorded.Point { return reported.Points.Last }, 1),
			)

			It("should replay all events without a revision", func() {
				result, err := replay.Replay(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(reported.Points.Last.Revision))
				Expect(result.CompactRevision).To(Equal(reported.Points.Last.CompactRevision))
				Expect(result.Hash).To(Equal(reported.Points.Last.Hash))
				Expect(result.Keys).To(Equal(int64(len(reported.Points.Last.Keys))))
				Expect(*result.Time).To(BeTemporally("~", sets[1].Full.Created, time.Minute))
			})

			It("should create the database of a time", func() {
				request.Time = reported.Points.BeforeTime.Time
				request.Live = &replay.Live{Revision: reported.Points.BeforeTime.Revision, Hash: reported.Points.BeforeTime.Hash}
				result, err := replay.Replay(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(reported.Points.BeforeTime.Revision))
				Expect(*result.Time).To(BeTemporally("<", request.Time))
				Expect(keysIn(request.Output, result.Revision)).To(Equal(reported.Points.BeforeTime.Keys))
			})

			It("should include an event that the sidecar had received in the middle of a delta snapshot", func() {
				events := eventsOf(sets[0].Deltas[0])
				request.Time = events[3].Time
				result, err := replay.Replay(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(events[3].Event.Kv.ModRevision))
				Expect(*result.Time).To(BeTemporally("==", request.Time))
			})

			It("should list the available revisions for a time before the first snapshot", func() {
				request.Time = sets[0].Full.Created.Add(-time.Minute)
				expectFailure(request, replay.ErrUnavailable, "available revisions: 17-47 (")
			})

			It("should list the available revisions for a time whose events were deleted", func() {
				for _, delta := range sets[0].Deltas {
					Expect(os.Remove(delta.Path)).To(Succeed())
				}
				request.Time = sets[1].Full.Created.Add(-time.Second)
				expectFailure(request, replay.ErrUnavailable, "the events between the revisions 17 and 48 are not in the store; available revisions: 17 (")

				By("reading the end of this set by its revision")
				request.Time, request.Revision = time.Time{}, 17
				Expect(replay.Replay(request)).Error().NotTo(HaveOccurred())
			})

			It("should create the database of a time after the newest snapshot", func() {
				request.Time = time.Now()
				Expect(replay.Replay(request)).To(HaveField("Revision", reported.Points.Last.Revision))
			})

			It("should list the available revisions for a revision before and after them", func() {
				for _, revision := range []int64{5, 99} {
					request.Revision = revision
					if revision < 17 {
						Expect(os.Remove(sets[0].Full.Path)).To(Succeed()) // it contains this revision
						expectFailure(request, replay.ErrUnavailable, "available revisions: 48-52 (")
					} else {
						expectFailure(request, replay.ErrUnavailable, "48-52 (")
					}
				}
			})

			It("should use a later full snapshot that is not compacted after the revision", func() {
				Expect(os.Remove(sets[0].Full.Path)).To(Succeed())
				point := reported.Points.Compacted
				request.Revision, request.Live = point.Revision, &replay.Live{Revision: point.Revision, CompactRevision: point.CompactRevision, Hash: point.Hash}
				result, err := replay.Replay(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Base).To(Equal(sets[1].Full.String()))
				Expect(result.Revision).To(Equal(point.Revision))
				Expect(keysIn(request.Output, point.Revision)).To(Equal(point.Keys))

				Expect(os.Remove(request.Output)).To(Succeed())
				request.Revision, request.Live = point.CompactRevision-1, nil
				expectFailure(request, replay.ErrUnavailable, "available revisions: 48-52 (")
			})

			It("should report a hash that differs, and keep the database for an inspection", func() {
				point := reported.Points.Compacted
				request.Revision, request.Live = point.Revision, &replay.Live{Revision: point.Revision, CompactRevision: point.CompactRevision, Hash: point.Hash + 1}
				_, err := replay.Replay(request)
				Expect(err).To(MatchError(replay.ErrHashDiffers))
				Expect(request.Output).To(BeAnExistingFile())
			})

			It("should compare with each revision that the live etcd reported, after a replay of all events", func() {
				for _, point := range []recorded.Point{reported.Points.First, reported.Points.Middle, reported.Points.Compacted} {
					request.Revision = 47
					request.Live = &replay.Live{Revision: point.Revision, CompactRevision: point.CompactRevision, Hash: point.Hash}
					result, err := replay.Replay(request)
					Expect(err).NotTo(HaveOccurred())
					Expect(result.Revision).To(Equal(int64(47)))
					Expect(os.Remove(request.Output)).To(Succeed())
				}
			})

			It("should not compare with a revision after the last snapshot", func() {
				request.Live = &replay.Live{Revision: 53, CompactRevision: 44, Hash: 1}
				expectFailure(request, replay.ErrUnavailable, "the snapshots end at revision 52")
			})

			It("should not compare with an etcd that was compacted less than the full snapshot", func() {
				Expect(os.Remove(sets[0].Full.Path)).To(Succeed())
				request.Revision, request.Live = 50, &replay.Live{Revision: 50, CompactRevision: 40, Hash: 1}
				expectFailure(request, replay.ErrUnavailable, "must not be compacted after revision 40")
			})

			It("should use an earlier full snapshot if a compaction of the store created the last one", func() {
				compacted := sets[1].Full
				compacted.Last = 47
				compacted.Path = filepath.Join(filepath.Dir(compacted.Path), compacted.String())
				Expect(os.Remove(sets[1].Full.Path)).To(Succeed())
				Expect(os.Remove(sets[1].Deltas[0].Path)).To(Succeed())
				writeFull(compacted.Path, request, 47, 47)

				point := reported.Points.Compacted
				request.Revision, request.Live = point.Revision, &replay.Live{Revision: point.Revision, CompactRevision: point.CompactRevision, Hash: point.Hash}
				result, err := replay.Replay(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Base).To(Equal(sets[0].Full.String()))

				Expect(os.Remove(request.Output)).To(Succeed())
				Expect(os.Remove(sets[0].Full.Path)).To(Succeed())
				request.Live.CompactRevision = 47
				_, err = replay.Replay(request)
				Expect(err).To(MatchError(replay.ErrUnavailable))
				Expect(err).To(MatchError(ContainSubstring("was created by a compaction, which drops leases")))
			})

			Describe("should report", func() {
				BeforeEach(func() { request.Revision = 47 })

				It("a damaged delta snapshot", func() {
					path := sets[0].Deltas[1].Path
					content, err := os.ReadFile(path)
					Expect(err).NotTo(HaveOccurred())
					content[len(content)/2] ^= 1
					Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
					expectFailure(request, snapshots.ErrDamaged, filepath.Base(path))
				})

				It("a missing delta snapshot", func() {
					Expect(os.Remove(sets[0].Deltas[1].Path)).To(Succeed())
					expectFailure(request, replay.ErrGap, "revisions 29 to 30 are in no snapshot before "+sets[0].Deltas[2].String())
				})

				It("a missing event in a delta snapshot", func() {
					events := eventsOf(sets[0].Deltas[0])
					rewrite(sets[0].Deltas[0], slices.Delete(events, 3, 4))
					expectFailure(request, replay.ErrGap, "revision 22 follows revision 20")
				})

				It("missing events at the end of a delta snapshot", func() {
					delta := sets[0].Deltas[len(sets[0].Deltas)-1]
					events := eventsOf(delta)
					rewrite(delta, events[:len(events)-1])
					expectFailure(request, replay.ErrGap, "is not that of revision 47")
				})

				It("a missing event of a revision with several ones", func() {
					delta := sets[0].Deltas[0]
					events := eventsOf(delta)
					lost := slices.IndexFunc(events, func(event snapshots.Event) bool {
						return event.Event.Type == mvccpb.DELETE && string(event.Event.Kv.Key) == "/registry/pods/key-4"
					})
					rewrite(delta, slices.Delete(events, lost, lost+1))
					expectFailure(request, replay.ErrHistory, `version 1 of a key with the prefix "/registry/pods", and version `)
				})

				It("overlapping delta snapshots, and replay them on request", func() {
					// The next leader begins its first delta snapshot at an older revision, because it has listed the store before.
					first, second := sets[0].Deltas[0], sets[0].Deltas[1]
					events := append(eventsOf(first)[5:], eventsOf(second)...)
					Expect(os.Remove(second.Path)).To(Succeed())
					second.First = events[0].Event.Kv.ModRevision
					second.Path = filepath.Join(filepath.Dir(second.Path), second.String())
					rewrite(second, events)
					expectFailure(request, replay.ErrOverlap, first.String()+" and "+second.String()+" contain revisions 23 to 28")

					request.AllowOverlap = true
					request.Live = &replay.Live{Revision: 47, CompactRevision: reported.Points.Compacted.CompactRevision, Hash: reported.Points.Compacted.Hash}
					_, err := replay.Replay(request)
					Expect(err).NotTo(HaveOccurred())

					Expect(os.Remove(request.Output)).To(Succeed())
					events[2].Event.Kv.Value = []byte("another value")
					rewrite(second, events)
					expectFailure(request, replay.ErrHistory, "revision 25 is another one in the earlier snapshots")
				})

				It("a delta snapshot of another history after a loss of data", func() {
					delta := sets[0].Deltas[1]
					events := eventsOf(delta)
					events[len(events)-1].Event.Kv.Version++
					rewrite(delta, events)
					expectFailure(request, replay.ErrHistory, "revision 30 is version ")
				})

				It("the deletion of a key that does not exist", func() {
					delta := sets[0].Deltas[1]
					events := eventsOf(delta)
					kv := events[len(events)-1].Event.Kv
					events[len(events)-1].Event = mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte("missing"), ModRevision: kv.ModRevision}}
					rewrite(delta, events)
					expectFailure(request, replay.ErrHistory, `revision 30 deletes a key with the prefix "", which does not exist`)
					events[len(events)-1].Event.Kv.Key = []byte("tenants/a/secrets/b")
					rewrite(delta, events)
					expectFailure(request, replay.ErrHistory, `revision 30 deletes a key with the prefix "tenants/a", which does not exist`)
				})

				It("a delta snapshot with higher revisions that is older than the full snapshot", func() {
					delta := sets[0].Deltas[1]
					Expect(os.Remove(delta.Path)).To(Succeed())
					older := delta
					older.Created = sets[0].Full.Created.Add(-time.Hour)
					older.Path = filepath.Join(filepath.Dir(delta.Path), older.String())
					rewrite(older, []snapshots.Event{{}})
					expectFailure(request, replay.ErrHistory, older.String()+" is older than "+sets[0].Full.String())
				})
			})

			It("should ignore events that the full snapshot contains, although its name has a lower revision", func() {
				renamed := sets[0].Full
				renamed.Last = 12
				Expect(os.Rename(sets[0].Full.Path, filepath.Join(filepath.Dir(renamed.Path), renamed.String()))).To(Succeed())
				request.Revision = 28
				request.Live = &replay.Live{Revision: 28, Hash: reported.Points.First.Hash}
				_, err := replay.Replay(request)
				Expect(err).NotTo(HaveOccurred())
			})

			Describe("Compare", func() {
				var restored string
				BeforeEach(func() {
					restored = filepath.Join(root, "restored", "member", "snap", "db")
					request.Revision = 47
					_, err := replay.Replay(request)
					Expect(err).NotTo(HaveOccurred())
				})

				It("should accept what the sidecar restored, without the leases", func() {
					Expect(replay.Compare(restored, request.Output, zap.NewNop())).To(Succeed())
					hash := func(path string) (hash uint32) {
						Expect(inspect.View(path, inspect.Options{Log: zap.NewNop()}, func(database *inspect.Database) (err error) {
							hash, err = database.Hash(47)

							return err
						})).To(Succeed())

						return hash
					}
					Expect(hash(restored)).NotTo(Equal(hash(request.Output)))
				})

				It("should accept a restored database that was compacted", func() {
					change(restored, func(store mvcc.KV) {
						done, err := store.Compact(traceutil.TODO(), 40)
						Expect(err).NotTo(HaveOccurred())
						<-done
					})
					Expect(replay.Compare(restored, request.Output, zap.NewNop())).To(Succeed())
				})

				It("should report an additional revision", func() {
					change(restored, func(store mvcc.KV) { store.DeleteRange([]byte("/registry/leased"), nil) })
					Expect(replay.Compare(restored, request.Output, zap.NewNop())).To(And(MatchError(replay.ErrRestoreDiffers), MatchError(ContainSubstring("additional revision 48"))))
				})

				It("should report an event that was lost because a lease expired first, although the last revision is the same", func() {
					forged := filepath.Join(root, "forged")
					Expect(sets[0].Full.Database(forged)).To(Succeed())
					change(forged, func(store mvcc.KV) {
						// The lease of the full snapshot expires before the first event. The sidecar skips the event of that revision.
						store.DeleteRange([]byte("/registry/masterleases/10.0.0.1"), nil)
						var events []snapshots.Event
						for _, delta := range sets[0].Deltas {
							events = append(events, eventsOf(delta)...)
						}
						for events = events[1:]; len(events) > 0; {
							txn := store.Write(traceutil.TODO())
							revision := events[0].Event.Kv.ModRevision
							for ; len(events) > 0 && events[0].Event.Kv.ModRevision == revision; events = events[1:] {
								if kv := events[0].Event.Kv; events[0].Event.Type == mvccpb.DELETE {
									txn.DeleteRange(kv.Key, nil)
								} else {
									txn.Put(kv.Key, kv.Value, lease.NoLease)
								}
							}
							txn.End()
						}
					})
					Expect(replay.Compare(forged, request.Output, zap.NewNop())).To(And(
						MatchError(replay.ErrRestoreDiffers), MatchError(ContainSubstring("revision 18 is another change"))))
					change(forged, func(store mvcc.KV) {
						done, err := store.Compact(traceutil.TODO(), store.Rev())
						Expect(err).NotTo(HaveOccurred())
						<-done
					})
					err := replay.Compare(forged, request.Output, zap.NewNop())
					Expect(err).To(And(MatchError(replay.ErrRestoreDiffers), MatchError(ContainSubstring("a key with the prefix \"/registry"))))
					Expect(err.Error()).NotTo(Or(MatchRegexp(`/registry/[^/"]+/`), ContainSubstring("leased")))
				})
			})
		})
	}
})

// expectFailure expects that a replay fails and leaves no database.
func expectFailure(request replay.Request, expected error, text string) {
	GinkgoHelper()
	_, err := replay.Replay(request)
	Expect(err).To(MatchError(expected))
	Expect(err).To(MatchError(ContainSubstring(text)))
	Expect(request.Output).NotTo(BeAnExistingFile())
}

func keysIn(path string, revision int64) (keys []recorded.Key) {
	GinkgoHelper()
	Expect(inspect.View(path, inspect.Options{Log: zap.NewNop()}, func(database *inspect.Database) error {
		keys = nil

		return database.ForEachKey([]byte{0}, []byte{}, revision, func(kv mvccpb.KeyValue) error {
			keys = append(keys, recorded.Key{
				Key: kv.Key, Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease,
			})

			return nil
		})
	})).To(Succeed())

	return keys
}

func eventsOf(file snapshots.File) []snapshots.Event {
	GinkgoHelper()
	events, err := file.Events()
	Expect(err).NotTo(HaveOccurred())

	return events
}

// rewrite writes a delta snapshot as the sidecar does.
func rewrite(delta snapshots.File, events []snapshots.Event) {
	GinkgoHelper()
	content, err := json.Marshal(events)
	Expect(err).NotTo(HaveOccurred())
	writeSnapshot(delta.Path, content)
}

// writeSnapshot writes a compressed snapshot with a hash at its end.
func writeSnapshot(path string, content []byte) {
	GinkgoHelper()
	hash := sha256.Sum256(content)
	file, err := os.Create(path)
	Expect(err).NotTo(HaveOccurred())
	writer := gzip.NewWriter(file)
	_, err = writer.Write(append(content, hash[:]...))
	Expect(err).NotTo(HaveOccurred())
	Expect(writer.Close()).To(Succeed())
	Expect(file.Close()).To(Succeed())
}

// writeFull writes a full snapshot of a revision without leases, which is compacted at a revision.
func writeFull(path string, request replay.Request, revision, compactRevision int64) {
	GinkgoHelper()
	request.Revision, request.Output = revision, filepath.Join(GinkgoT().TempDir(), "db")
	_, err := replay.Replay(request)
	Expect(err).NotTo(HaveOccurred())
	change(request.Output, func(store mvcc.KV) {
		done, err := store.Compact(traceutil.TODO(), compactRevision)
		Expect(err).NotTo(HaveOccurred())
		<-done
	})
	db, err := bolt.Open(request.Output, 0o600, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(schema.Key.Name())

		return bucket.ForEach(func(key, value []byte) error {
			kv := mvccpb.KeyValue{}
			Expect(kv.Unmarshal(value)).To(Succeed())
			kv.Lease = 0
			content, err := kv.Marshal()
			Expect(err).NotTo(HaveOccurred())

			return bucket.Put(key, content)
		})
	})).To(Succeed())
	Expect(db.Close()).To(Succeed())
	content, err := os.ReadFile(request.Output)
	Expect(err).NotTo(HaveOccurred())
	writeSnapshot(path, content)
}

// change changes a database as etcd does.
func change(path string, write func(mvcc.KV)) {
	GinkgoHelper()
	b := backend.NewDefaultBackend(zap.NewNop(), path)
	store := mvcc.NewStore(zap.NewNop(), b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	write(store)
	Expect(store.Close()).To(Succeed())
	Expect(b.Close()).To(Succeed())
}
