// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/seed"
)

var _ = Describe("TryLock", func() {
	var path string

	BeforeEach(func() { path = filepath.Join(GinkgoT().TempDir(), "folder", "lock") })

	lock := func() *os.File {
		GinkgoHelper()

		file, err := seed.TryLock(path)
		Expect(err).NotTo(HaveOccurred())

		if file != nil {
			DeferCleanup(func() { _ = file.Close() })
		}

		return file
	}

	It("locks the file for one process at a time", func() {
		first := lock()
		Expect(first).NotTo(BeNil())
		Expect(lock()).To(BeNil())

		Expect(first.Close()).To(Succeed())
		Expect(lock()).NotTo(BeNil())
	})

	It("locks a new file after the file was removed", func() {
		Expect(lock()).NotTo(BeNil())
		Expect(os.RemoveAll(filepath.Dir(path))).To(Succeed())
		Expect(lock()).NotTo(BeNil())
	})
})

var _ = Describe("NoProxy", func() {
	DescribeTable("adds the seed's networks to the user's setting", func(name, value, expected string) {
		GinkgoT().Setenv("NO_PROXY", "")
		GinkgoT().Setenv("no_proxy", "")
		GinkgoT().Setenv(name, value)

		Expect(seed.NoProxy()).To(Equal(expected))
	},
		Entry("no setting", "NO_PROXY", "", "localhost,127.0.0.1,10.250.0.0/24,10.244.0.0/16,10.96.0.0/16"),
		Entry("the variable in capital letters", "NO_PROXY", "example.org,localhost", "example.org,localhost,127.0.0.1,10.250.0.0/24,10.244.0.0/16,10.96.0.0/16"),
		Entry("the variable in lower-case letters", "no_proxy", "example.org", "example.org,localhost,127.0.0.1,10.250.0.0/24,10.244.0.0/16,10.96.0.0/16"),
	)
})

var _ = Describe("The images", func() {
	vector := func(references map[string]string) map[string]map[string]string {
		GinkgoHelper()

		content, err := seed.ImageVector(references)
		Expect(err).NotTo(HaveOccurred())

		var parsed struct{ Images []map[string]string }
		Expect(json.Unmarshal(content, &parsed)).To(Succeed())

		byName := map[string]map[string]string{}

		for _, entry := range parsed.Images {
			Expect(byName).NotTo(HaveKey(entry["name"]))
			byName[entry["name"]] = entry
		}

		return byName
	}

	It("are those of the seed by default", func() {
		Expect(vector(nil)).To(And(
			HaveKeyWithValue("etcd-wrapper", HaveKeyWithValue("repository", "seed.local/etcd-wrapper")),
			HaveKeyWithValue("etcd-backup-restore", HaveKeyWithValue("repository", "seed.local/etcd-backup-restore")),
		))
	})

	It("are those of the user for the names that the user replaces", func() {
		reference := "seed.local/etcd-wrapper@sha256:0123"
		images := vector(map[string]string{"etcd-wrapper": reference, "etcd-backup-restore-next": "seed.local/a:1"})
		Expect(images["etcd-wrapper"]).To(Equal(map[string]string{"name": "etcd-wrapper", "ref": reference}))
		Expect(images["etcd-backup-restore-next"]).To(Equal(map[string]string{"name": "etcd-backup-restore-next", "ref": "seed.local/a:1"}))
		Expect(images["etcd-backup-restore"]).To(HaveKeyWithValue("repository", "seed.local/etcd-backup-restore"))
	})

	DescribeTable("are archives or references", func(value string, expected bool) {
		Expect(seed.IsArchive(value, filepath.Join("testdata-that-does-not-exist", value))).To(Equal(expected))
	},
		Entry("an absolute path", "/tmp/wrapper", true),
		Entry("a path in the directory above", "../wrapper", true),
		Entry("an archive that does not exist", "images/wrapper.tar", true),
		Entry("a reference", "example.com/team/etcd-wrapper:v0.6.2", false),
		Entry("a reference with a digest", "example.com/team/etcd-wrapper@sha256:0123", false),
	)

	It("are archives if the file exists", func() {
		file := filepath.Join(GinkgoT().TempDir(), "wrapper")
		Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
		Expect(seed.IsArchive("wrapper", file)).To(BeTrue())
	})

	It("that no node has result in an error with the variable and the remedy", func() {
		Expect(seed.MissingImage("SIDECAR", "example.com/sidecar:1", "n2")).To(MatchError(And(
			ContainSubstring("SIDECAR=example.com/sidecar:1: node n2 does not have this image"),
			ContainSubstring("skopeo copy docker://example.com/sidecar:1 docker-archive:image.tar"),
		)))
	})
})

var _ = Describe("The settings of the chart", func() {
	var s *seed.Seed

	BeforeEach(func() {
		var err error
		s, err = seed.New(layout.Seed, progress.New(GinkgoWriter))
		Expect(err).NotTo(HaveOccurred())
	})

	It("are those of the seed by default", func() {
		Expect(s.Settings("", nil)).To(And(HaveKey("config"), HaveKey("protection")))
	})

	It("are, on the bare cluster, etcd 3.4 as the default, unless there is a sidecar for etcd 3.5", func() {
		bare, err := seed.New(layout.Bare, progress.New(GinkgoWriter))
		Expect(err).NotTo(HaveOccurred())
		Expect(bare.Settings("", nil)).To(HaveKeyWithValue("config", HaveKeyWithValue("controllers", HaveKeyWithValue("etcd", HaveKeyWithValue("newEtcdVersion", "3.4")))))
		Expect(bare.Settings("", map[string]string{"etcd-backup-restore-next": "example.com/sidecar:1"})).NotTo(HaveKey("config"))
	})

	It("are only those of the file, whose path starts at the root of the checkout", func() {
		Expect(s.Settings("test/e2e/testdata/upgrade-values.yaml", nil)).To(And(HaveKey("protection"), Not(HaveKey("config"))))
	})

	It("are an error if the file does not exist or is no YAML", func() {
		file := filepath.Join(GinkgoT().TempDir(), "values.yaml")
		_, err := s.Settings(file, nil)
		Expect(err).To(MatchError(os.ErrNotExist))

		Expect(os.WriteFile(file, []byte("- a list"), 0o600)).To(Succeed())
		_, err = s.Settings(file, nil)
		Expect(err).To(MatchError(ContainSubstring("reading the values in " + file)))
	})
})

var _ = Describe("KindUp", func() {
	var s *seed.Seed

	BeforeEach(func() {
		var err error
		s, err = seed.New(layout.Seed, progress.New(GinkgoWriter))
		Expect(err).NotTo(HaveOccurred())
	})

	It("prints the configuration of kind and the arguments of Helm without a container engine", func(ctx SpecContext) {
		out := &bytes.Buffer{}
		Expect(s.KindUp(ctx, true, out)).To(Succeed())

		text, rest, found := strings.Cut(out.String(), "---\n")
		Expect(found).To(BeTrue())

		type mount struct{ HostPath, ContainerPath string }
		config := struct {
			APIVersion, Kind, Name string
			Nodes                  []struct {
				Role        string
				Labels      map[string]string
				ExtraMounts []mount
			}
		}{}
		Expect(yaml.UnmarshalStrict([]byte(text), &config)).To(Succeed())
		Expect(config.Name).To(Equal("etcd-druid"))

		zones := map[string]bool{}
		for i, node := range config.Nodes {
			Expect(node.ExtraMounts).To(ConsistOf(mount{filepath.Join(s.Layout.Cache, "kind", "local-store"), "/etc/gardener/local-backupbuckets"}))

			if i > 0 {
				Expect(node.Role).To(Equal("worker"))
				zones[node.Labels["topology.kubernetes.io/zone"]] = true
			}
		}
		Expect(config.Nodes).To(HaveLen(4))
		Expect(config.Nodes[0].Role).To(Equal("control-plane"))
		Expect(zones).To(And(HaveLen(3), Not(HaveKey(""))))
		Expect(rest).To(And(ContainSubstring("upgrade"), ContainSubstring("test/e2e/values.yaml"), ContainSubstring("image.tag=TAG"), Not(ContainSubstring("imageVectorOverwrite"))))
	})

	It("returns an error with the remedy on a machine without a container engine", func(ctx SpecContext) {
		GinkgoT().Setenv("PATH", GinkgoT().TempDir())
		Expect(s.KindUp(ctx, false, GinkgoWriter)).To(MatchError(And(ContainSubstring("kind needs docker, podman or nerdctl"), ContainSubstring("`make up`"))))
	})
})

var _ = Describe("The example", func() {
	It("is the Etcd in the file", func() {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "example", seed.ExampleFile))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).To(ContainSubstring("kind: Etcd\nmetadata:\n  name: " + seed.ExampleName + "\n  namespace: " + seed.ExampleNamespace + "\n"))
	})
})

var _ = Describe("API", func() {
	serve := func(responses map[string]string) *seed.API {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			response, found := responses[r.URL.RequestURI()]
			if !found {
				http.NotFound(w, r)
				return
			}

			_, _ = io.WriteString(w, response)
		}))
		DeferCleanup(server.Close)

		return seed.NewAPI(server.URL)
	}

	DescribeTable("describes pods that are not ready", func(ctx SpecContext, pods, expected string) {
		api := serve(map[string]string{"/api/v1/namespaces/ns/pods?labelSelector=app%3Dx": `{"items":[` + pods + `]}`})
		Expect(api.MissingPods(ctx, "ns", "app=x")).To(Equal(expected))
	},
		Entry("the container that is not ready, and the reason",
			`{"metadata":{"name":"x-0","deletionTimestamp":null},"status":{"phase":"Running","containerStatuses":[{"name":"etcd","state":{"waiting":{"reason":"ErrImageNeverPull"}}},{"name":"backup-restore","ready":true}]}}`,
			"pod x-0 is ErrImageNeverPull (etcd), 1 of 2 containers ready"),
		Entry("a container that has failed",
			`{"metadata":{"name":"x-0"},"status":{"phase":"Running","containerStatuses":[{"name":"etcd","state":{"terminated":{"exitCode":3}}}]}}`,
			"pod x-0 is failing (etcd ended with code 3), 0 of 1 containers ready"),
		Entry("a pod that is terminating", `{"metadata":{"name":"x-0","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
			"pod x-0 is terminating"),
		Entry("ready pods", `{"metadata":{"name":"x-0"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "its pods are ready"),
		Entry("none", "", "no pod yet"),
	)

	It("describes why the Etcd is not ready", func(ctx SpecContext) {
		api := serve(map[string]string{
			"/apis/druid.gardener.cloud/v1alpha1/namespaces/etcd-example/etcds/etcd-local":                `{"status":{"conditions":[{"type":"Ready","status":"False","message":"no quorum"}],"lastErrors":[{"description":"no store"}]}}`,
			"/api/v1/namespaces/etcd-example/pods?labelSelector=app.kubernetes.io%2Fpart-of%3Detcd-local": `{"items":[]}`,
		})
		Expect(api.MissingEtcd(ctx)).To(Equal("Ready is False (no quorum); no store; no pod yet"))
	})

	It("compares the revision of the key with the Leases of the snapshots", func(ctx SpecContext) {
		const leases = "/apis/coordination.k8s.io/v1/namespaces/etcd-example/leases/etcd-local-"
		api := serve(map[string]string{leases + "full-snap": `{"spec":{"holderIdentity":"1"}}`, leases + "delta-snap": `{"spec":{}}`})
		Expect(api.MissingRevision(ctx, 1, "full")).To(BeEmpty())
		Expect(api.MissingRevision(ctx, 2, "full", "delta")).To(ContainSubstring("revisions up to 1"))

		api = serve(map[string]string{leases + "full-snap": `{"spec":{"holderIdentity":"1"}}`, leases + "delta-snap": `{"spec":{"holderIdentity":"2"}}`})
		Expect(api.MissingRevision(ctx, 2, "full", "delta")).To(BeEmpty())
	})

	DescribeTable("describes what a Seed or a Shoot waits for", func(ctx SpecContext, status, expected string) {
		Expect(serve(map[string]string{"/x": `{"status":` + status + `}`}).MissingOperation(ctx, "/x")).To(Equal(expected))
	},
		Entry("the operation", `{"lastOperation":{"type":"Create","state":"Processing","progress":20,"description":"Deploying Etcds"}}`, "Create Processing (20 %): Deploying Etcds"),
		Entry("conditions", `{"lastOperation":{"state":"Succeeded"},"conditions":[{"type":"A","status":"True"},{"type":"B","status":"False","message":"no"}]}`, "B is False (no)"),
		Entry("the first condition", `{"lastOperation":{"state":"Succeeded"}}`, "no condition yet"),
		Entry("nothing", `{"lastOperation":{"state":"Succeeded"},"conditions":[{"type":"A","status":"True"}]}`, ""),
	)
})

var _ = Describe("A garden", func() {
	It("gives a kubeconfig of the Shoot with an address that this machine reaches", func() {
		content := seed.WithServer([]byte("clusters:\n- name: a\n  cluster:\n    certificate-authority-data: Y2E=\n    server: https://api.example.com\n"), "https://10.0.0.1")
		Expect(content).To(MatchYAML(`{"clusters":[{"name":"a","cluster":{"server":"https://10.0.0.1","certificate-authority-data":"Y2E=","tls-server-name":"kube-apiserver"}}]}`))
	})
})
