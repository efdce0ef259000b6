// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package linearizability_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/test/linearizability"
)

const (
	// endpointVariable is the environment variable with the endpoint of the cluster whose history TestHistory records. seedVariable has the random seed.
	endpointVariable, seedVariable = "LINEARIZABILITY_ENDPOINT", "LINEARIZABILITY_SEED"
	// sampleVariable names the sample that TestHistory checks.
	sampleVariable = "LINEARIZABILITY_SAMPLE"
	// recording is the message when etcd has acknowledged the first write.
	recording = "etcd has acknowledged the first write"
	// recorded is the message after all clients have stopped.
	recorded = "all clients have stopped"
	// checkTimeout limits the search for a linearization. A history that needs longer has an unknown result, which is a failure.
	checkTimeout = 5 * time.Minute
	// startTimeout limits the start of etcd in TestRecording.
	startTimeout = 30 * time.Second
)

// TestMain runs TestHistory alone if a variable selects its history, and all other tests otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	selected, name := "test.skip", "^TestHistory$"
	if os.Getenv(endpointVariable)+os.Getenv(sampleVariable) != "" {
		selected = "test.run"
	}
	if err := flag.Set(selected, name); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestHistory records a history until a line arrives on the standard input. It logs recording when the cluster may be disturbed. When no client sends
// requests any more, it logs recorded. The next line contains copies of the data directories of the members, separated by spaces. Their
// write-ahead logs show the requests that etcd has persisted.
func TestHistory(t *testing.T) {
	if sample := os.Getenv(sampleVariable); sample != "" {
		check(t, samples[sample]())

		return
	}
	seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		t.Fatalf("%s: %s", seedVariable, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	input := bufio.NewReader(os.Stdin)
	go func() {
		defer stop()
		_, _ = input.ReadString('\n')
	}()
	reports, err := linearizability.Record(ctx, linearizability.Load{
		Endpoint: os.Getenv(endpointVariable), Seed: seed, Clients: 4, Keys: 5, Pause: 50 * time.Millisecond, Timeout: time.Second,
		Begun: func() { t.Log(recording) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(recorded)
	line, err := input.ReadString('\n')
	if err != nil {
		t.Fatalf("reading the data directories: %s", err)
	}
	requests, err := report.PersistedRequestsDirs(zap.NewNop(), strings.Fields(line))
	if err != nil {
		t.Fatalf("reading the write-ahead logs: %s", err)
	}
	operations, failed := 0, 0
	for _, r := range reports {
		operations += len(r.KeyValue)
		for _, operation := range r.KeyValue {
			if operation.Output.(model.MaybeEtcdResponse).Error != "" {
				failed++
			}
		}
	}
	t.Logf("checking %d requests, of which the results of %d are unknown, with %d persisted requests", operations, failed, len(requests))
	check(t, history{reports: reports, requests: requests})
}

// history is what clients have recorded, and what etcd has persisted.
type history struct {
	reports  []report.ClientReport
	requests []model.EtcdRequest
}

func check(t *testing.T, h history) {
	t.Helper()
	visualize := validate.ValidateAndReturnVisualize(t, zap.NewNop(), validate.Config{ExpectRevisionUnique: true}, h.reports, h.requests, checkTimeout)
	if !t.Failed() {
		return
	}
	path, err := os.CreateTemp("", "linearizability-*.html")
	if err == nil {
		err = visualize(path.Name())
	}
	t.Logf("the history is drawn in %s (error: %v)", path.Name(), err)
}

// samples are histories of two clients. The first one writes "a" and then "b". The second one reads after that.
var samples = map[string]func() history{
	"linearizable": func() history { return sample("b", 3, true) },
	"lost write":   func() history { return sample("a", 2, true) },
	"stale read":   func() history { return sample("a", 3, true) },
	// etcd has acknowledged a write that no member has persisted.
	"not persisted": func() history { return sample("b", 3, false) },
}

func sample(read string, revision int64, isPersisted bool) history {
	ids := identity.NewIDProvider()
	writer, reader := model.NewAppendableHistory(ids), model.NewAppendableHistory(ids)
	writer.AppendPut("key", "a", 1, 2, &clientv3.PutResponse{Header: &pb.ResponseHeader{Revision: 2}}, nil)
	writer.AppendPut("key", "b", 3, 4, &clientv3.PutResponse{Header: &pb.ResponseHeader{Revision: 3}}, nil)
	reader.AppendRange("key", "", 0, 0, 5, 6, &clientv3.GetResponse{
		Header: &pb.ResponseHeader{Revision: revision}, Count: 1, Kvs: []*mvccpb.KeyValue{{Key: []byte("key"), Value: []byte(read), ModRevision: revision, Version: revision - 1}},
	}, nil)
	h := history{reports: []report.ClientReport{{ClientID: ids.NewClientID(), KeyValue: writer.Operations()}, {ClientID: ids.NewClientID(), KeyValue: reader.Operations()}}}
	for _, operation := range writer.Operations() {
		h.requests = append(h.requests, operation.Input.(model.EtcdRequest))
	}
	if !isPersisted {
		h.requests = h.requests[:1]
	}

	return h
}

// TestSamples checks that the check finds violations. Each sample runs in a process of its own, because a violation fails its test.
func TestSamples(t *testing.T) {
	for name, violation := range map[string]string{
		"linearizable": "", "lost write": "Failed linearization", "stale read": "Failed linearization", "not persisted": "was not persisted",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.v") // #nosec G204 G702 -- this test
			command.Env = append(os.Environ(), fmt.Sprintf("%s=%s", sampleVariable, name))
			output, err := command.CombinedOutput()
			if violation == "" {
				g.Expect(err).NotTo(HaveOccurred(), string(output))
			} else {
				g.Expect(err).To(HaveOccurred())
				g.Expect(string(output)).To(ContainSubstring(violation))
			}
			g.Expect(string(output)).To(ContainSubstring("TestHistory"))
		})
	}
}
