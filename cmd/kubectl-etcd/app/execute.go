// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // its successor is not what client-go's executors return
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// helperError is an error of etcd-helper.
type helperError struct{ error }

// execute runs a command of etcd-helper in the pod of an inspection. The error contains its error.
func (s *session) execute(ctx context.Context, pod string, command []string, out io.Writer) error {
	executor, err := s.executor(pod, command)
	if err != nil {
		return err
	}
	errOut := &bytes.Buffer{}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: errOut})
	failed := exec.CodeExitError{}
	if errors.As(err, &failed) && errOut.Len() > 0 {
		return helperError{errors.New(strings.TrimSpace(strings.TrimPrefix(errOut.String(), "etcd-helper: ")))}
	}
	if err != nil {
		return fmt.Errorf("running %s in pod %s: %w", command[0], pod, explain(err))
	}

	return nil
}

// executor connects like kubectl: with a websocket, or with SPDY if a server or proxy does not support websockets.
func (s *session) executor(pod string, command []string) (remotecommand.Executor, error) {
	url := s.clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: etcdcluster.InspectionContainer, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	older, err := remotecommand.NewSPDYExecutor(s.config, http.MethodPost, url)
	if err != nil {
		return nil, err
	}
	newer, err := remotecommand.NewWebSocketExecutor(s.config, http.MethodGet, url.String())
	if err != nil {
		return nil, err
	}

	return remotecommand.NewFallbackExecutor(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
