// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/version"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// bundleOptions are the flags of report.
type bundleOptions struct {
	file            string
	tail, limitSize int64
}

func (p *plugin) reportCommand() *cobra.Command {
	o := bundleOptions{}
	command := p.etcdCommand("report", "Write a support bundle: status, plan, objects, events and logs, without the data of Secrets",
		"Write a support bundle as a tar.gz archive: the status, the plan, the record of the operator, the objects of the cluster, events, and\n"+
			"the logs of all containers. The bundle contains no Secret. The command reads the Secrets of the namespace to replace their data in all\n"+
			"files. Without the permission to list Secrets, it omits logs and ConfigMaps. It replaces the values of environment variables.",
		func(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd) error {
			name := cmp.Or(o.file, fmt.Sprintf("etcd-report-%s-%s-%s.tar.gz", etcd.Namespace, etcd.Name, session.clock.Now().UTC().Format("20060102150405")))
			content, err := p.bundle(ctx, session, etcd, o)
			if err != nil {
				return err
			}
			if err := writeNew(name, content); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Out, "Wrote %s. Read it before you share it: names and logs of your cluster are in it.\n", name)

			return err
		})
	command.Flags().StringVarP(&o.file, "filename", "f", "", "the archive to create. Empty: a name with the Etcd and the time, in the current directory")
	command.Flags().Int64Var(&o.tail, "tail", 5000, "the number of last lines of each log")
	command.Flags().Int64Var(&o.limitSize, "limit-bytes", 4<<20, "the size limit of each log")

	return command
}

// writeNew creates the file, and never replaces one.
func writeNew(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- the file that the user names
	if err != nil {
		return fmt.Errorf("the archive is not written: %w", err)
	}
	_, err = file.Write(content)

	return errors.Join(err, file.Close())
}

// bundle collects the files of the archive.
type bundle struct {
	*session

	etcd     *druidv1alpha1.Etcd
	files    map[string][]byte
	redactor *report.Redactor
	// omitted lists what could not be read, with the reasons.
	omitted []string
}

func (p *plugin) bundle(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd, o bundleOptions) ([]byte, error) {
	b := &bundle{session: session, etcd: etcd, files: map[string][]byte{}}
	secrets := &corev1.SecretList{}
	readable := b.note("Secrets, and therefore logs and ConfigMaps", session.List(ctx, secrets, inNamespace(etcd)))
	b.redactor = report.NewRedactor(secrets.Items)

	b.addStatus(ctx, p)
	b.addPlan(ctx, p)
	pods := b.addObjects(ctx, readable)
	if readable {
		b.addLogs(ctx, pods, o)
	}
	b.addReadme()

	return b.archive()
}

// note records an error, and reports whether there is none.
func (b *bundle) note(part string, err error) bool {
	if err != nil {
		b.omitted = append(b.omitted, fmt.Sprintf("%s: %v", part, explain(err)))
	}

	return err == nil
}

// add adds a file without the data of Secrets.
func (b *bundle) add(name string, content []byte) { b.files[name] = b.redactor.Redact(content) }

func (b *bundle) addStatus(ctx context.Context, p *plugin) {
	status, err := b.status(ctx, []string{b.etcd.Name})
	if !b.note("status", err) {
		return
	}
	text := &bytes.Buffer{}
	_ = status.Text(text, true) // a Buffer takes everything
	b.add("status.txt", text.Bytes())
	encoded := &bytes.Buffer{}
	once := &plugin{IOStreams: p.IOStreams, raw: p.raw, flags: p.flags}
	once.Out = encoded
	if b.note("status.json", once.print(status, "json", nil)) {
		b.add("status.json", encoded.Bytes())
	}
}

// addPlan runs the subcommand plan for the stored spec.
func (b *bundle) addPlan(ctx context.Context, p *plugin) {
	text := &bytes.Buffer{}
	once := &plugin{IOStreams: p.IOStreams, raw: p.raw, flags: p.flags}
	once.Out, once.ErrOut = text, text
	command := once.planCommand()
	command.SetArgs([]string{b.etcd.Name})
	command.SetOut(text)
	command.SetErr(text)
	command.SilenceUsage, command.SilenceErrors = true, true
	if b.note("plan", command.ExecuteContext(ctx)) {
		b.add("plan.txt", text.Bytes())
	}
}

// addLogs adds the logs of all containers, also of those that ran before.
func (b *bundle) addLogs(ctx context.Context, pods []corev1.Pod, o bundleOptions) {
	for _, pod := range pods {
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			for _, previous := range []bool{false, true} {
				if previous && container.RestartCount == 0 {
					continue
				}
				name := pod.Name + "-" + container.Name
				if previous {
					name += "-previous"
				}
				options := &corev1.PodLogOptions{Container: container.Name, Previous: previous, TailLines: &o.tail, LimitBytes: &o.limitSize}
				text, err := b.clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
				if b.note("logs/"+name, err) {
					b.add("logs/"+name+".log", text)
				}
			}
		}
	}
}

func (b *bundle) addReadme() {
	text := &strings.Builder{}
	fmt.Fprintf(text, "Support bundle of Etcd %s/%s, written at %s by kubectl etcd %s.\n\n", b.etcd.Namespace, b.etcd.Name, b.clock.Now().UTC().Format(time.RFC3339), version.Get().GitVersion)
	text.WriteString("It contains no Secret. Data of the Secrets in the namespace, and values of environment variables, are replaced by REDACTED.\nValues with fewer than 8 characters are not replaced.\n")
	if len(b.omitted) > 0 {
		text.WriteString("\nNot contained:\n")
		for _, part := range b.omitted {
			fmt.Fprintf(text, "- %s\n", part)
		}
	}
	b.add("README.txt", []byte(text.String()))
}

// addRecord adds the record of the operator in a readable form.
func (b *bundle) addRecord(annotations map[string]string) {
	text := &bytes.Buffer{}
	if record := annotations[druidv1alpha1.ManagedResourceAnnotationState]; record != "" && b.note("record", json.Indent(text, []byte(record), "", "  ")) {
		b.add("record.json", text.Bytes())
	}
}

// archive packs the files into a directory with the name of the Etcd.
func (b *bundle) archive() ([]byte, error) {
	buffer := &bytes.Buffer{}
	compressed := gzip.NewWriter(buffer)
	writer := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		content := b.files[name]
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join("etcd-report-"+b.etcd.Name, name), Size: int64(len(content)), Mode: 0o600, ModTime: b.clock.Now()}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.Copy(writer, bytes.NewReader(content)); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(writer.Close(), compressed.Close()); err != nil {
		return nil, err
	}

	return buffer.Bytes(), nil
}
