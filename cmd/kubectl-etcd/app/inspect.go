// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
)

const (
	// endTimeout is how long the plugin tries to delete the task of an inspection.
	endTimeout = 10 * time.Second
	// suffixLength is the number of random characters in the name of a task. The plugin chooses the name, to delete the task also if it gets no
	// response to its creation.
	suffixLength = 8
	// timeExample shows the form of a time.
	timeExample = "2026-11-25T22:27:36Z"
)

// Verbs of an inspection.
const (
	verbGet    = "get"
	verbList   = "list"
	verbDiff   = "diff"
	verbExport = "export"
)

// inspectFlags are the flags of kubectl etcd inspect.
type inspectFlags struct {
	revision, comparedRevision int64
	time, comparedTime, file   string
	limit                      time.Duration
}

func (p *plugin) inspectCommand() *cobra.Command {
	f := inspectFlags{}
	command := &cobra.Command{
		Use:   "inspect NAME {--revision=REVISION | --time=TIME} [get KEY | list [PREFIX] | diff [PREFIX] | export [PREFIX]]",
		Short: "Read the keys that the backup store contained at a revision or a time",
		Long: "Read the keys that the backup store contained at a revision or a time, next to the running cluster. A Job copies the snapshots and\n" +
			"replays them in a temporary directory. Nothing of the cluster changes. The command deletes the Job when it ends.\n\n" +
			"  get     the value of a key\n" +
			"  list    the keys with a prefix: key, mod revision, version, and size of the value in bytes\n" +
			"  diff    the keys that differ from the running cluster, or from --against-revision or --against-time. + is only at the second\n" +
			"          point, - only at the first one, < and > are both states of a changed key\n" +
			"  export  writes the keys with their values into a file, one JSON object in each line\n\n" +
			"Without a verb, the command reads lines with get, list and diff from the standard input until its end. It copies the snapshots once\n" +
			"for all of them. diff then needs --against-revision or --against-time.\n\n" +
			"The data includes Secrets. You need the verb inspect for Etcds, and the rights to create EtcdOpsTasks and pods/exec. An event of the\n" +
			"Etcd reports each inspection. diff against the running cluster takes a delta snapshot first.",
		Example: "  kubectl etcd inspect etcd-main --revision=4711 get /registry/configmaps/default/example\n" +
			"  kubectl etcd inspect etcd-main --time=" + timeExample + " diff /registry/deployments/",
		Args: cobra.ArbitraryArgs, ValidArgsFunction: p.completeNames,
		RunE: func(command *cobra.Command, args []string) error {
			session, err := p.connect()
			if err != nil {
				return err
			}
			inspection, err := f.parse(args, session.clock.Now())
			if err != nil {
				return usageError{err}
			}
			etcd, _, err := session.etcd(command.Context(), args[:1])
			if err != nil {
				return err
			}

			return p.inspect(command.Context(), session, etcd, inspection)
		},
	}
	flags := command.Flags()
	flags.Int64Var(&f.revision, "revision", 0, "the revision of etcd")
	flags.StringVar(&f.time, "time", "", "the time, for example "+timeExample)
	flags.Int64Var(&f.comparedRevision, "against-revision", 0, "the revision with which diff compares, instead of the running cluster")
	flags.StringVar(&f.comparedTime, "against-time", "", "the time with which diff compares, instead of the running cluster")
	flags.StringVar(&f.file, "file", "", "the new file of export")
	flags.DurationVar(&f.limit, "time-limit", 15*time.Minute, "how long the data is readable at most, from 1m to 4h")

	return command
}

// action is what the user wants to read.
type action struct{ verb, argument string }

// inspection is what the user wants to inspect. Without a verb, the actions are in the standard input.
type inspection struct {
	action

	file   string
	config druidv1alpha1.BackupInspectionConfig
}

// parse returns what the command line means.
func (f inspectFlags) parse(args []string, now time.Time) (inspection, error) {
	in := inspection{file: f.file}
	if len(args) == 0 {
		return in, errors.New("the name of an Etcd is expected: kubectl etcd inspect NAME get KEY")
	}
	var err error
	if len(args) > 1 {
		if in.action, err = actionOf(args[1:]); err != nil {
			return in, err
		}
	}
	if in.config.Point, err = pointOf("revision", f.revision, "time", f.time, now); err != nil {
		return in, err
	}
	if in.config.Point == (druidv1alpha1.BackupPoint{}) {
		return in, errors.New("--revision or --time is required")
	}
	other, err := pointOf("against-revision", f.comparedRevision, "against-time", f.comparedTime, now)
	if err != nil {
		return in, err
	}
	hasOther := other != druidv1alpha1.BackupPoint{}
	if in.verb == verbDiff || hasOther {
		in.config.CompareWith = &other
	}
	in.config.TimeLimitSeconds = new(int32(f.limit.Seconds()))

	return in, f.check(in, hasOther)
}

// check returns why flags do not fit the verb.
func (f inspectFlags) check(in inspection, hasOther bool) error {
	isExport := in.verb == verbExport
	switch {
	case hasOther && in.verb != verbDiff && in.verb != "":
		return errors.New("--against-revision and --against-time need the verb diff")
	case isExport && f.file == "":
		return errors.New("export needs --file, the new file for the keys")
	case !isExport && f.file != "":
		return errors.New("--file needs the verb export: redirect the output of other verbs")
	case f.limit < time.Minute || f.limit > 4*time.Hour:
		return fmt.Errorf("--time-limit is %s: use a duration from 1m to 4h", f.limit)
	default:
		return nil
	}
}

// actionOf returns the action that words describe.
func actionOf(words []string) (action, error) {
	do := action{verb: words[0]}
	if len(words) > 1 {
		do.argument = words[1]
	}
	switch {
	case do.verb != verbGet && do.verb != verbList && do.verb != verbDiff && do.verb != verbExport:
		return do, fmt.Errorf("%q is not a verb of an inspection: use get, list, diff or export", do.verb)
	case do.verb == verbGet && len(words) != 2:
		return do, errors.New("get needs one key: get KEY")
	case len(words) > 2:
		return do, fmt.Errorf("%s takes at most one prefix", do.verb)
	default:
		return do, nil
	}
}

// pointOf returns the point that two flags name. It is empty if neither is set.
func pointOf(revisionFlag string, revision int64, timeFlag, text string, now time.Time) (druidv1alpha1.BackupPoint, error) {
	point := druidv1alpha1.BackupPoint{}
	switch {
	case revision != 0 && text != "":
		return point, fmt.Errorf("--%s and --%s exclude each other: use one of them", revisionFlag, timeFlag)
	case revision < 0:
		return point, fmt.Errorf("--%s is %d: use a positive number", revisionFlag, revision)
	case revision > 0:
		point.Revision = &revision
	case text != "":
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return point, fmt.Errorf("--%s is %q: use the form %s", timeFlag, text, timeExample)
		}
		if at.After(now) {
			return point, fmt.Errorf("--%s is %s, which is in the future: use a time in the past", timeFlag, text)
		}
		point.Time = &metav1.Time{Time: at}
	}

	return point, nil
}

// inspect has the operator make the data readable, reads it, and deletes the task, also after an interruption.
func (p *plugin) inspect(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd, in inspection) (err error) {
	out, err := p.target(in)
	if err != nil {
		return err
	}
	task, err := session.createInspection(ctx, etcd, in.config)
	if err != nil && apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return errors.Join(explain(err), out.discard())
	}
	// Without a response of the API server, the task may exist.
	defer func() { err = errors.Join(err, p.endInspection(context.WithoutCancel(ctx), session, task)) }()
	if err != nil {
		return errors.Join(err, out.discard())
	}
	pod, err := p.awaitReadable(ctx, session, task)
	if err == nil {
		p.describe(pod, in.config)
		err = (&reading{plugin: p, session: session, pod: pod.Name, inspection: in, out: out}).run(ctx)
	}
	if err != nil {
		return errors.Join(err, out.discard())
	}

	return out.keep()
}

// createInspection creates the task. A CustomResourceDefinition of gardenlet prunes its config: an annotation then contains it.
func (s *session) createInspection(ctx context.Context, etcd *druidv1alpha1.Etcd, config druidv1alpha1.BackupInspectionConfig) (*druidv1alpha1.EtcdOpsTask, error) {
	name := etcd.Name + "-inspection-" + utilrand.String(suffixLength)
	task := func() *druidv1alpha1.EtcdOpsTask {
		task := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: name}}
		task.Spec.EtcdName, task.Spec.TTLSecondsAfterFinished = &etcd.Name, new(int32(time.Hour.Seconds()))

		return task
	}
	created := task()
	created.Spec.Config.BackupInspection = &config
	err := s.Create(ctx, created)
	if !apierrors.IsInvalid(err) {
		return created, err
	}
	text, marshalErr := json.Marshal(config)
	if marshalErr != nil {
		return created, marshalErr
	}
	created = task()
	created.Annotations = map[string]string{
		druidv1alpha1.TaskKindAnnotation: druidv1alpha1.TaskBackupInspection, druidv1alpha1.TaskBackupInspectionAnnotation: string(text),
	}
	created.Spec.Config.OnDemandSnapshot = &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeDelta}

	return created, s.Create(ctx, created)
}

// endInspection deletes the task. The operator then deletes the Job.
func (p *plugin) endInspection(ctx context.Context, session *session, task *druidv1alpha1.EtcdOpsTask) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	if err := client.IgnoreNotFound(session.Delete(ctx, task)); err != nil {
		return fmt.Errorf("the data stays readable until the time limit: kubectl delete etcdopstask -n %s %s failed: %w", task.Namespace, task.Name, explain(err))
	}

	return nil
}

// awaitReadable waits until the data can be read, and returns the pod.
func (p *plugin) awaitReadable(ctx context.Context, session *session, task *druidv1alpha1.EtcdOpsTask) (*corev1.Pod, error) {
	var pod *corev1.Pod
	said := ""
	err := wait.PollUntilContextCancel(ctx, taskPause, true, func(ctx context.Context) (bool, error) {
		if err := session.Get(ctx, client.ObjectKeyFromObject(task), task); err != nil {
			return false, explain(err)
		}
		if news := taskNews(task); news != said {
			said = news
			_, _ = fmt.Fprintf(p.ErrOut, "%s  %s\n", session.clock.Now().UTC().Format(time.TimeOnly), news) // progress
		}
		if helper.IsTaskFinished(task) {
			return false, inspectionFailure(task)
		}
		if !opstask.IsReadable(task) {
			return false, nil
		}
		found, err := session.inspectionPod(ctx, task)
		pod = found

		return found != nil, err
	})

	return pod, err
}

// inspectionFailure is the end of a task before its data could be read.
func inspectionFailure(task *druidv1alpha1.EtcdOpsTask) error {
	message := "the task has no error"
	if lastErrors := task.Status.LastErrors; len(lastErrors) > 0 {
		message = lastErrors[len(lastErrors)-1].Description
	}

	return taskError{fmt.Errorf("EtcdOpsTask %s is %s: %s", task.Name, *task.Status.State, message)}
}

// inspectionPod returns the newest pod in which the data can be read. Nil: there is none.
func (s *session) inspectionPod(ctx context.Context, task *druidv1alpha1.EtcdOpsTask) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	selector := client.MatchingLabels{druidv1alpha1.LabelPartOfKey: ptr.Deref(task.Spec.EtcdName, ""), druidv1alpha1.LabelComponentKey: druidv1alpha1.ComponentNameBackupInspectionJob}
	if err := s.List(ctx, pods, client.InNamespace(task.Namespace), selector); err != nil {
		return nil, explain(err)
	}
	var newest *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}

	return newest, nil
}

// describe writes which points the data has.
func (p *plugin) describe(pod *corev1.Pod, config druidv1alpha1.BackupInspectionConfig) {
	for _, container := range pod.Status.InitContainerStatuses {
		if terminated := container.State.Terminated; terminated != nil && (container.Name == etcdcluster.ReplayContainer || container.Name == etcdcluster.ReplayComparedContainer) {
			what := map[string]string{etcdcluster.ReplayContainer: "Data", etcdcluster.ReplayComparedContainer: "Compared with"}[container.Name]
			_, _ = fmt.Fprintf(p.ErrOut, "%s: %s\n", what, report.ReplayedPoint(terminated.Message))
		}
	}
	_, _ = fmt.Fprintf(p.ErrOut, "Readable in pod %s for at most %s\n", pod.Name, opstask.InspectionTimeLimit(config))
}
