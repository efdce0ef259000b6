// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/client"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// Load says which requests are recorded.
type Load struct {
	// Endpoint is the address of etcd without TLS, as HOST:PORT.
	Endpoint string
	// Seed makes the choice of the requests reproducible, but not their order.
	Seed uint64
	// Clients is the number of clients. Each of them sends one request at a time.
	Clients int
	// Keys is the number of keys. With fewer keys, more requests of different clients concern the same key.
	Keys int
	// Pause is the time between two requests of a client.
	Pause time.Duration
	// Timeout limits a request. The result of a request that takes longer is unknown.
	Timeout time.Duration
	// Begun is called when etcd has acknowledged the first write. Until then, nothing may disturb the cluster: the result of the first write must be
	// known. Nil: nothing is called.
	Begun func()
}

// Record sends requests until the context ends, and returns the reports of all clients. The cluster must be empty and healthy at the beginning: the
// model knows the whole history. Another client watches all keys.
func Record(ctx context.Context, load Load) ([]report.ClientReport, error) {
	ids, began := identity.NewIDProvider(), time.Now()
	clients := make([]*client.RecordingClient, load.Clients+1)
	for i := range clients {
		c, err := client.NewRecordingClient([]string{load.Endpoint}, ids, began)
		if err != nil {
			return nil, fmt.Errorf("connecting to %s: %w", load.Endpoint, err)
		}
		defer func() { _ = c.Close() }()
		clients[i] = c
	}
	watching, writing := clients[0], clients[1:]
	first, err := writing[0].Put(ctx, key(0), "first")
	if err != nil {
		return nil, fmt.Errorf("writing the first key: %w", err)
	}
	if first.Header.Revision != 2 {
		return nil, fmt.Errorf("the first write has the revision %d: the cluster was not empty", first.Header.Revision)
	}
	if load.Begun != nil {
		load.Begun()
	}

	watchContext, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatch()
	newest := make(chan int64, 1)
	watched := make(chan error, 1)
	go func() { watched <- watch(watchContext, watching, newest) }()

	var group sync.WaitGroup
	for i, c := range writing {
		group.Go(func() { load.send(ctx, c, rand.New(rand.NewPCG(load.Seed, uint64(i)))) }) // #nosec G404 G115 -- reproducible
	}
	group.Wait()
	last, err := lastRevision(watchContext, writing[0], load.Timeout)
	if err != nil {
		return nil, err
	}
	newest <- last
	if err := <-watched; err != nil {
		return nil, err
	}
	reports := make([]report.ClientReport, len(clients))
	for i, c := range clients {
		reports[i] = c.Report()
	}

	return reports, nil
}

// lastRevision returns the revision after all requests, by a linearizable read that is repeated until it succeeds.
func lastRevision(ctx context.Context, c *client.RecordingClient, timeout time.Duration) (int64, error) {
	var last error
	for range 60 {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		response, err := c.Get(attempt, key(0))
		cancel()
		if err == nil {
			return response.Header.Revision, nil
		}
		last = err
	}

	return 0, fmt.Errorf("reading the last revision: %w", last)
}

// send sends requests of a client until the context ends. A request that has begun is completed.
func (l Load) send(ctx context.Context, c *client.RecordingClient, random *rand.Rand) {
	revisions := map[string]int64{}
	for number := 0; ctx.Err() == nil; number++ {
		attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Timeout)
		l.sendOne(attempt, c, random, revisions, fmt.Sprintf("%d-%d", c.ID, number))
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(l.Pause):
		}
	}
}

// sendOne sends one request. revisions are the revisions of the keys as the client knows them. Values are unique.
func (l Load) sendOne(ctx context.Context, c *client.RecordingClient, random *rand.Rand, revisions map[string]int64, value string) {
	name := key(random.IntN(l.Keys))
	switch choice := random.IntN(100); {
	case choice < 35:
		if response, err := c.Get(ctx, name); err == nil {
			revisions[name] = 0
			for _, kv := range response.Kvs {
				revisions[name] = kv.ModRevision
			}
		}
	case choice < 70:
		if response, err := c.Put(ctx, name, value); err == nil {
			revisions[name] = response.Header.Revision
		}
	case choice < 90:
		compare := clientv3.Compare(clientv3.ModRevision(name), "=", revisions[name])
		response, err := c.Txn(ctx).If(compare).Then(clientv3.OpPut(name, value)).Else(clientv3.OpGet(name)).Commit()
		if err == nil && response.Succeeded {
			revisions[name] = response.Header.Revision
		}
	default:
		if _, err := c.Delete(ctx, name); err == nil {
			revisions[name] = 0
		}
	}
}

func key(number int) string { return fmt.Sprintf("key%d", number) }

// watch watches all keys until it has received the events up to the revision in the channel. A watch that ends is continued.
func watch(ctx context.Context, c *client.RecordingClient, newest <-chan int64) error {
	received, last := int64(1), int64(0)
	for last == 0 || received < last {
		round, cancel := context.WithCancel(ctx)
		responses := c.Watch(round, "", received+1, true, true, false)
		err := func() error {
			for {
				select {
				case last = <-newest:
					if received >= last {
						return nil
					}
				case response, isOpen := <-responses:
					if !isOpen || response.Canceled {
						return nil
					}
					if count := len(response.Events); count > 0 {
						received = response.Events[count-1].Kv.ModRevision
					}
					if last > 0 && received >= last {
						return nil
					}
				case <-ctx.Done():
					return errors.New("the watch was stopped before it received all events")
				}
			}
		}()
		cancel()
		if err != nil {
			return err
		}
	}

	return nil
}
