// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const replayed = `{"revision":7,"keys":3,"hash":1,"base":"Full-00000000-00000004-1.gz","baseRevision":4,"deltas":2,"events":3,"time":"2026-01-01T11:59:00Z"}`

// inspected is a server on which the data of an inspection becomes readable at once.
type inspected struct {
	*fakeServer

	// commands are those that ran in the pod.
	commands []string
	// out and errOut are what the plugin has written.
	out, errOut *bytes.Buffer
}

// newInspected returns the server. A command writes the output and the error, and ends with the code.
func newInspected(ctx context.Context, code int, output, failure string) *inspected {
	in := &inspected{fakeServer: newFakeServer(etcdOf(1, druidv1alpha1.EtcdMemberStatusReady))}
	in.created = func(object client.Object) {
		task := object.(*druidv1alpha1.EtcdOpsTask)
		task.Status.State = new(druidv1alpha1.TaskStateInProgress)
		task.Status.LastOperation = &druidv1alpha1.LastOperation{Description: "Attempt 1 of 3: the data can be read"}
		in.update(ctx, task)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "main-insp-abcde", Labels: map[string]string{
			"app.kubernetes.io/part-of": "main", "app.kubernetes.io/component": "etcd-backup-inspection-job",
		}}}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "replay", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: replayed}}}}
		Expect(client.IgnoreAlreadyExists(in.Client.Create(ctx, pod))).To(Succeed())
	}
	in.exec = func(pod string, command []string, out, errOut io.Writer) int {
		in.commands = append(in.commands, pod+" "+strings.Join(command, " "))
		_, _ = io.WriteString(out, output)
		_, _ = io.WriteString(errOut, failure)

		return code
	}

	return in
}

func (in *inspected) update(ctx context.Context, task *druidv1alpha1.EtcdOpsTask) {
	GinkgoHelper()
	Expect(in.Client.Update(ctx, task)).To(Succeed())
}

// run runs kubectl etcd inspect main, and returns the exit code.
func (in *inspected) run(ctx context.Context, input string, args ...string) int {
	in.out, in.errOut = &bytes.Buffer{}, &bytes.Buffer{}

	return app.Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(input), Out: in.out, ErrOut: in.errOut}, append([]string{"inspect", "main", "--kubeconfig", "/dev/null", "--server", in.url}, args...))
}

// expectNothingLeft expects that the task was created and deleted.
func (in *inspected) expectNothingLeft(ctx context.Context) {
	GinkgoHelper()
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	Expect(in.List(ctx, tasks)).To(Succeed())
	Expect(tasks.Items).To(BeEmpty())
	Expect(in.writes).To(ContainElement(HavePrefix("DELETE etcdopstasks/main-inspection-")))
}

var _ = Describe("inspect", func() {
	It("prints a value as it is, and what is known about it", func(ctx SpecContext) {
		in := newInspected(ctx, 0, `{"key":"/registry/a","modRevision":6,"version":2,"bytes":6,"value":"azhzAAH/"}`, "")
		Expect(in.run(ctx, "", "--revision=7", "get", "/registry/a")).To(Equal(0), in.errOut.String())
		Expect(in.out.Bytes()).To(Equal([]byte("k8s\x00\x01\xff")))
		Expect(in.errOut.String()).To(And(
			ContainSubstring("Data: revision 7 of 2026-01-01T11:59:00Z, 3 keys, from Full-00000000-00000004-1.gz and 2 delta snapshots\n"),
			ContainSubstring("Readable in pod main-insp-abcde for at most 15m0s\n"),
			ContainSubstring("Mod revision 6, version 2, 6 bytes, application/vnd.kubernetes.protobuf\n")))
		Expect(in.commands).To(ConsistOf("main-insp-abcde /etcd-helper get --database=/var/etcd/data/point.db --output=json --values -- /registry/a"))
		Expect(in.writes[0]).To(And(HavePrefix("POST etcdopstasks "), ContainSubstring(`"config":{"backupInspection":{"point":{"revision":7},"timeLimitSeconds":900}}`), ContainSubstring(`"etcdName":"main"`)))
		in.expectNothingLeft(ctx)
	})

	It("lists the keys with a prefix, without control characters", func(ctx SpecContext) {
		in := newInspected(ctx, 0, "/registry/a\t6\t2\t6\n/registry/\x1b[2J\t7\t1\t0\n", "")
		Expect(in.run(ctx, "", "--time=2026-01-01T12:00:00+01:00", "--time-limit=5m", "list", "/registry/")).To(Equal(0), in.errOut.String())
		Expect(in.out.String()).To(Equal("/registry/a\t6\t2\t6\n/registry/\\u001b[2J\t7\t1\t0\n"))
		Expect(in.commands).To(ConsistOf("main-insp-abcde /etcd-helper list --database=/var/etcd/data/point.db -- /registry/"))
		Expect(in.writes[0]).To(ContainSubstring(`{"point":{"time":"2026-01-01T11:00:00Z"},"timeLimitSeconds":300}`))
		in.expectNothingLeft(ctx)
	})

	DescribeTable("compares", func(ctx SpecContext, compareWith string, args ...string) {
		in := newInspected(ctx, 0, "+ /registry/a\t6\t2\t6\n", "")
		Expect(in.run(ctx, "", append([]string{"--revision=7", "diff"}, args...)...)).To(Equal(0), in.errOut.String())
		Expect(in.out.String()).To(Equal("+ /registry/a\t6\t2\t6\n"))
		Expect(in.commands).To(ConsistOf("main-insp-abcde /etcd-helper diff --database=/var/etcd/data/point.db --other-database=/var/etcd/data/compared.db --"))
		Expect(in.writes[0]).To(ContainSubstring(`"compareWith":` + compareWith))
		in.expectNothingLeft(ctx)
	},
		Entry("with the running cluster", "{}"),
		Entry("with a revision", `{"revision":9}`, "--against-revision=9"),
		Entry("with a time", `{"time":"2026-01-01T12:00:00Z"}`, "--against-time=2026-01-01T12:00:00Z"),
	)

	It("exports the keys into a new file that only its owner can read", func(ctx SpecContext) {
		file := filepath.Join(GinkgoT().TempDir(), "keys")
		in := newInspected(ctx, 0, "{\"key\":\"a\"}\n", "")
		Expect(in.run(ctx, "", "--revision=7", "--file="+file, "export", "/registry/")).To(Equal(0), in.errOut.String())
		Expect(os.ReadFile(file)).To(BeEquivalentTo("{\"key\":\"a\"}\n"))
		Expect(os.Stat(file)).To(HaveField("Mode()", os.FileMode(0o600)))
		in.expectNothingLeft(ctx)

		By("exporting into the same file")
		in = newInspected(ctx, 0, "", "")
		Expect(in.run(ctx, "", "--revision=7", "--file="+file, "export")).To(Equal(2))
		Expect(in.errOut.String()).To(ContainSubstring("--file: " + file + " exists: use a new file"))
		Expect(in.writes).To(BeEmpty())

		By("exporting without success")
		other := file + "-2"
		in = newInspected(ctx, 3, "{\"key\":", "etcd-helper: no database: x\n")
		Expect(in.run(ctx, "", "--revision=7", "--file="+other, "export")).To(Equal(1))
		Expect(in.errOut.String()).To(ContainSubstring("error: no database: x\n"))
		Expect(other).NotTo(BeAnExistingFile())
		in.expectNothingLeft(ctx)
	})

	It("runs the actions in its input with one task", func(ctx SpecContext) {
		in := newInspected(ctx, 15, "", "etcd-helper: the key does not exist\n")
		Expect(in.run(ctx, "get /registry/a\n\nlist\ndelete\nget\nexport\ndiff\n", "--revision=7")).To(Equal(0), in.errOut.String())
		Expect(in.commands).To(HaveExactElements(HaveSuffix(" -- /registry/a"), HaveSuffix("/etcd-helper list --database=/var/etcd/data/point.db --")))
		Expect(strings.Count(in.errOut.String(), "error: the key does not exist\n")).To(Equal(2))
		Expect(in.errOut.String()).To(And(
			ContainSubstring(`error: "delete" is not a verb of an inspection`), ContainSubstring("error: get needs one key"),
			ContainSubstring("error: export needs a command of its own"), ContainSubstring("error: diff needs --against-revision or --against-time")))
		in.expectNothingLeft(ctx)
	})

	It("uses an annotation where the CustomResourceDefinition prunes the config", func(ctx SpecContext) {
		in := newInspected(ctx, 0, "", "")
		in.invalid = func(body string) bool { return !strings.Contains(body, "onDemandSnapshot") }
		Expect(in.run(ctx, "", "--revision=7", "list")).To(Equal(0), in.errOut.String())
		Expect(in.writes[1]).To(And(
			ContainSubstring(`"etcd-druid.extensions.gardener.cloud/task-kind":"backup-inspection"`),
			ContainSubstring(`"etcd-druid.extensions.gardener.cloud/backup-inspection":"{\"point\":{\"revision\":7},\"timeLimitSeconds\":900}"`)))
		in.expectNothingLeft(ctx)
	})

	It("reports which points exist", func(ctx SpecContext) {
		in := newInspected(ctx, 0, "", "")
		in.created = func(object client.Object) {
			task := object.(*druidv1alpha1.EtcdOpsTask)
			task.Status.State = new(druidv1alpha1.TaskStateFailed)
			task.Status.LastErrors = []druidv1alpha1.LastError{{Description: "the snapshots do not lead to this point: revision 3; available revisions: 4-7"}}
			in.update(ctx, task)
		}
		Expect(in.run(ctx, "", "--revision=3", "list")).To(Equal(3))
		Expect(in.errOut.String()).To(MatchRegexp(`error: EtcdOpsTask main-inspection-\w+ is Failed: the snapshots do not lead to this point: revision 3; available revisions: 4-7\n`))
		in.expectNothingLeft(ctx)
	})

	It("deletes the task after an interruption, also while a terminal has no input", func(ctx SpecContext) {
		for _, args := range [][]string{{"list"}, {}} {
			interrupted, cancel := interruptible(ctx)
			in := newInspected(ctx, 0, "", "")
			in.exec = func(string, []string, io.Writer, io.Writer) int {
				cancel()
				<-ctx.Done() // the command of the pod does not end

				return 0
			}
			readable := in.created
			if len(args) == 0 {
				in.created = func(object client.Object) { readable(object); cancel() }
			}
			input, output := io.Pipe()
			in.out, in.errOut = &bytes.Buffer{}, &bytes.Buffer{}
			code := app.Run(interrupted, genericiooptions.IOStreams{In: input, Out: in.out, ErrOut: in.errOut},
				append([]string{"inspect", "main", "--kubeconfig", "/dev/null", "--server", in.url, "--revision=7"}, args...))
			Expect(code).To(Equal(1))
			Expect(output.Close()).To(Succeed())
			in.expectNothingLeft(ctx)
		}
	})

	It("names the rejection of the admission policy", func(ctx SpecContext) {
		in := newInspected(ctx, 0, "", "")
		in.forbidden = func(verb, path string) bool { return verb == "POST" && path == "etcdopstasks" }
		Expect(in.run(ctx, "", "--revision=7", "list")).To(Equal(1))
		Expect(in.errOut.String()).To(ContainSubstring("not allowed"))
		Expect(in.writes).To(BeEmpty())
	})

	It("says that the data stays readable if the task cannot be deleted", func(ctx SpecContext) {
		in := newInspected(ctx, 0, "", "")
		in.forbidden = func(verb, _ string) bool { return verb == "DELETE" }
		Expect(in.run(ctx, "", "--revision=7", "list")).To(Equal(1))
		Expect(in.errOut.String()).To(MatchRegexp(`the data stays readable until the time limit: kubectl delete etcdopstask -n default main-inspection-\w+ failed`))
	})

	DescribeTable("rejects wrong arguments", func(ctx SpecContext, message string, args ...string) {
		in := newInspected(ctx, 0, "", "")
		Expect(in.run(ctx, "", args...)).To(Equal(2))
		Expect(in.errOut.String()).To(ContainSubstring(message))
		Expect(in.writes).To(BeEmpty())
	},
		Entry("no point", "--revision or --time is required", "list"),
		Entry("two points", "--revision and --time exclude each other", "list", "--revision=3", "--time=2026-01-01T12:00:00Z"),
		Entry("a negative revision", "--revision is -3: use a positive number", "list", "--revision=-3"),
		Entry("a time in another form", `--time is "yesterday": use the form 2026-11-25T22:27:36Z`, "list", "--time=yesterday"),
		Entry("a time in the future", "--time is 2999-01-01T12:00:00Z, which is in the future", "list", "--time=2999-01-01T12:00:00Z"),
		Entry("a time in the future to compare with", "--against-time is 2999-01-01T12:00:00Z", "diff", "--revision=3", "--against-time=2999-01-01T12:00:00Z"),
		Entry("another verb", `"put" is not a verb of an inspection: use get, list, diff or export`, "put", "--revision=3"),
		Entry("no key", "get needs one key", "get", "--revision=3"),
		Entry("two prefixes", "list takes at most one prefix", "list", "a", "b", "--revision=3"),
		Entry("a comparison for another verb", "need the verb diff", "list", "--revision=3", "--against-revision=4"),
		Entry("no file", "export needs --file", "export", "--revision=3"),
		Entry("a file for another verb", "--file needs the verb export", "list", "--revision=3", "--file=x"),
		Entry("a long time limit", "--time-limit is 5h0m0s: use a duration from 1m to 4h", "list", "--revision=3", "--time-limit=5h"),
	)
})
