// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	etcdctl := exec.CommandContext(ctx, path, args...)
	etcdctl.Env = append(os.Environ(), environment...)
	etcdctl.Stdin, etcdctl.Stdout, etcdctl.Stderr = p.In, p.Out, p.ErrOut
	if err := etcdctl.Run(); err != nil {
		return fmt.Errorf("etcdctl: %w", err)
	}

	return nil
}

// etcdctlEnvironment opens the ways to all members, and writes the credentials into the folder.
func (s *session) etcdctlEnvironment(ctx context.Context, etcd *druidv1alpha1.Etcd, folder string) ([]string, error) {
	observation := s.observer(ctx).Observe(ctx, etcd, observer.Request{})
	endpoints, secrets := "", (*etcdcluster.ClientSecrets)(nil)
	for _, pod := range observation.Pods {
		if !pod.ContainersReady && !pod.Ready {
			continue
		}
		local, err := s.forward(ctx, pod.Name, int(helper.ClientPort(etcd)))
		if err != nil {
			return nil, err
		}
		secrets = pod.ClientTLS
		endpoints += "," + endpointFor(local, secrets != nil)
	}
	if endpoints == "" {
		return nil, fmt.Errorf("no member of %s is ready; kubectl etcd status %s says more", etcd.Name, etcd.Name)
	}
	environment := []string{"ETCDCTL_ENDPOINTS=" + endpoints[1:]}
	if secrets == nil {
		return environment, nil
	}
	files, err := s.writeCredentials(ctx, *secrets, folder)

	return append(environment, files...), err
}

// endpointFor is the local address as an URL. Each member's certificate is valid for localhost.
func endpointFor(local string, tls bool) string {
	scheme := "http://"
	if tls {
		scheme = "https://"
	}
	_, port, _ := net.SplitHostPort(local) // forward has joined it

	return scheme + net.JoinHostPort("localhost", port)
}

func (s *session) writeCredentials(ctx context.Context, secrets etcdcluster.ClientSecrets, folder string) ([]string, error) {
	ca, pair := &corev1.Secret{}, &corev1.Secret{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: secrets.CA}, ca); err != nil {
		return nil, explain(err)
	}
	bundle := ca.Data["bundle.crt"]
	if len(bundle) == 0 {
		bundle = ca.Data["ca.crt"]
	}
	files := map[string][]byte{"ETCDCTL_CACERT": bundle}
	if secrets.Client != "" {
		if err := s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: secrets.Client}, pair); err != nil {
			return nil, explain(err)
		}
		files["ETCDCTL_CERT"], files["ETCDCTL_KEY"] = pair.Data[corev1.TLSCertKey], pair.Data[corev1.TLSPrivateKeyKey]
	}
	var environment []string
	for variable, content := range files {
		path := filepath.Join(folder, variable)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("writing %s: %w", variable, err)
		}
		environment = append(environment, variable+"="+path)
	}

	return environment, nil
}
