// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

func (p *plugin) logsCommand() *cobra.Command {
	options := &corev1.PodLogOptions{Container: etcdcluster.ContainerEtcd}
	tail := int64(50)
	command := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Show the logs of all members, each line with the pod in front",
		Args:  atMostOneName, ValidArgsFunction: p.completeNames,
		RunE: func(command *cobra.Command, args []string) error {
			if tail >= 0 {
				options.TailLines = &tail
			}
			session, err := p.connect()
			if err != nil {
				return err
			}
			_, etcd, err := session.etcd(command.Context(), args)
			if err != nil {
				return err
			}
			observation := session.observer(command.Context()).Observe(command.Context(), etcd, observer.Request{})
			if len(observation.Pods) == 0 {
				return fmt.Errorf("%s has no pods; kubectl etcd status %s says why", etcd.Name, etcd.Name)
			}

			return p.logs(command.Context(), session, observation.Pods, options)
		},
	}
	command.Flags().StringVarP(&options.Container, "container", "c", options.Container, "etcd or backup-restore")
	command.Flags().BoolVarP(&options.Follow, "follow", "f", false, "stream the logs")
	command.Flags().BoolVarP(&options.Previous, "previous", "p", false, "of the containers that ran before")
	command.Flags().Int64Var(&tail, "tail", tail, "the number of last lines of each member, -1 for all")

	return command
}

func (p *plugin) logs(ctx context.Context, session *session, pods []etcdcluster.Pod, options *corev1.PodLogOptions) error {
	out := &lines{writer: p.Out}
	failures := make([]error, len(pods))
	var group sync.WaitGroup
	for i, pod := range pods {
		show := func() {
			stream, err := session.clientset.CoreV1().Pods(session.namespace).GetLogs(pod.Name, options).Stream(ctx)
			if err == nil {
				err = errors.Join(out.copy(pod.Name, stream), stream.Close())
			}
			if err != nil && ctx.Err() == nil {
				failures[i] = fmt.Errorf("logs of pod %s: %w", pod.Name, explain(err))
			}
		}
		if !options.Follow { // one member after the other
			show()

			continue
		}
		group.Go(show)
	}
	group.Wait()

	return errors.Join(failures...)
}

// lines writes whole lines of concurrent streams.
type lines struct {
	lock   sync.Mutex
	writer io.Writer
}

func (l *lines) copy(name string, stream io.Reader) error {
	scanner := bufio.NewScanner(stream)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		l.lock.Lock()
		_, err := fmt.Fprintf(l.writer, "%s  %s\n", name, scanner.Text())
		l.lock.Unlock()
		if err != nil {
			return err
		}
	}

	return scanner.Err()
}
