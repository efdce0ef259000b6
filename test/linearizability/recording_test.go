// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package linearizability_test

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// TestRecording records and checks the history of an etcd of one member, as an end-to-end test does. Etcd must have acknowledged the first write when
// the process says so. A history whose first write has an unknown result cannot be checked.
func TestRecording(t *testing.T) {
	g := NewWithT(t)
	etcd := startEtcd(t)
	endpoint := etcd.Clients[0].Addr().String()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = client.Close() }()

	process := exec.CommandContext(t.Context(), os.Args[0], "-test.v") // #nosec G204 G702 -- this test
	process.Env = append(os.Environ(), endpointVariable+"="+endpoint, seedVariable+"=1")
	input, err := process.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	output, err := process.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(process.Start()).To(Succeed())

	var all strings.Builder
	for lines := bufio.NewScanner(output); lines.Scan(); {
		fmt.Fprintln(&all, lines.Text())
		switch {
		case strings.Contains(lines.Text(), recording):
			response, err := client.Get(t.Context(), "key0")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Header.Revision).To(BeNumerically(">=", 2))
			_, err = fmt.Fprintln(input)
			g.Expect(err).NotTo(HaveOccurred())
		case strings.Contains(lines.Text(), recorded):
			_, err := fmt.Fprintln(input, etcd.Config().Dir)
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	g.Expect(process.Wait()).To(Succeed(), all.String())
	g.Expect(all.String()).To(And(ContainSubstring(recording), ContainSubstring(recorded), ContainSubstring("checking ")))
}

func startEtcd(t *testing.T) *embed.Etcd {
	t.Helper()
	g := NewWithT(t)
	config := embed.NewConfig()
	config.Dir, config.LogLevel, config.UnsafeNoFsync = t.TempDir(), "error", true
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config.ListenClientUrls, config.AdvertiseClientUrls = local, local
	config.ListenPeerUrls, config.AdvertisePeerUrls = local, local
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	etcd, err := embed.StartEtcd(config)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(etcd.Close)
	g.Eventually(etcd.Server.ReadyNotify()).WithTimeout(startTimeout).Should(BeClosed())

	return etcd
}
