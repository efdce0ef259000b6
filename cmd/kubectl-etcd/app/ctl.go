// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/etcdctl"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

func (p *plugin) ctlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ctl [NAME] -- ARGUMENTS",
		Short: "Run etcdctl against a cluster, with all its members as endpoints",
		Long: "Run the etcdctl of your PATH against a cluster, with all its members as endpoints: ports are forwarded and the client\n" +
			"certificate of the cluster is used for as long as it runs. It takes the rights to read Secrets and to forward ports.",
		Example: "  kubectl etcd ctl -- endpoint status -w table\n  kubectl etcd ctl etcd-main -- get /registry --prefix --keys-only --limit 10",
		Args: func(command *cobra.Command, args []string) error {
			if command.ArgsLenAtDash() < 0 {
				return usageError{errors.New("the arguments of etcdctl follow --, as in kubectl etcd ctl -- member list")}
			}

			return atMostOneName(command, args[:command.ArgsLenAtDash()])
		},
		ValidArgsFunction: p.completeNames,
		RunE: func(command *cobra.Command, args []string) error {
			session, err := p.connect()
			if err != nil {
				return err
			}
			dash := command.ArgsLenAtDash()

			return p.ctl(command.Context(), session, args[:dash], args[dash:])
		},
	}
}

func (p *plugin) ctl(ctx context.Context, session *session, names, args []string) error {
	path, err := exec.LookPath("etcdctl")
	if err != nil {
		return errors.New("etcdctl is not in your PATH; go install go.etcd.io/etcd/etcdctl/v3@latest brings it")
	}
	_, etcd, err := session.etcd(ctx, names)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	folder, err := os.MkdirTemp("", "kubectl-etcd-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // it is below the folder for temporary files
	environment, err := session.etcdctlEnvironment(ctx, etcd, folder)
	if err != nil {
		return err
	}
	program := exec.CommandContext(ctx, path, args...) // #nosec G204 -- etcdctl with the arguments of the user
	program.Env = append(os.Environ(), environment...)
	program.Stdin, program.Stdout, program.Stderr = p.raw.In, p.raw.Out, p.raw.ErrOut // the values may be binary
	if err := program.Run(); err != nil {
		return fmt.Errorf("etcdctl: %w", err)
	}

	return nil
}

// etcdctlEnvironment opens the ways to all members, and writes the credentials into the folder.
func (s *session) etcdctlEnvironment(ctx context.Context, etcd *druidv1alpha1.Etcd, folder string) ([]string, error) {
	clusterObserver := s.observer(ctx)
	observation := clusterObserver.Observe(ctx, etcd, observer.Request{})
	endpoints, secrets := "", (*etcdcluster.ClientSecrets)(nil)
	for _, pod := range observation.Pods {
		if !pod.ContainersReady && !pod.Ready {
			continue
		}
		secrets = pod.ClientTLS
		endpoint, err := etcdctl.Endpoint(ctx, func(ctx context.Context) (string, error) {
			return s.forward(ctx, pod.Name, int(cmp.Or(pod.ClientPort, helper.ClientPort(etcd))))
		}, secrets != nil)
		if err != nil {
			return nil, fmt.Errorf("etcd in pod %s: %w", pod.Name, err)
		}
		endpoints += "," + endpoint
	}
	if endpoints == "" {
		return nil, fmt.Errorf("no member of %s is ready; kubectl etcd status %s says more", etcd.Name, etcd.Name)
	}
	environment := []string{"ETCDCTL_ENDPOINTS=" + endpoints[1:]}
	if secrets == nil {
		return environment, nil
	}
	material, err := clusterObserver.ClientTLS(ctx, etcd, *secrets)
	if err != nil {
		return nil, explain(err)
	}
	files, err := etcdctl.WriteTLS(folder, material)

	return append(environment, files...), err
}
