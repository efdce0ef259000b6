// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"os"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

// The functions export those of this package for tests.
func ImageVector(references map[string]string) ([]byte, error) { return imageVector(references) }
func IsArchive(value, path string) bool                        { return isArchive(value, path) }
func MissingImage(variable, reference, node string) error {
	return missingImage(variable, reference, node)
}

// Settings exports settings for tests.
func (s *Seed) Settings(file string, references map[string]string) (map[string]any, error) {
	return s.settings(file, references)
}

// TryLock exports tryLock and NoProxy exports noProxy for tests.
func TryLock(path string) (*os.File, error) { return tryLock(path) }
func NoProxy() string                       { return noProxy(layout.Seed) }

// API exports api for tests, and the constants the example.
type API struct{ api }

const ExampleFile, ExampleNamespace, ExampleName = exampleFile, exampleNamespace, exampleName

func NewAPI(server string) *API { return &API{api{server: server}} }

func (a *API) MissingPods(ctx context.Context, namespace, selector string) (string, error) {
	return a.missingPods(ctx, namespace, selector)
}
func (a *API) MissingEtcd(ctx context.Context) (string, error) { return a.missingEtcd(ctx) }
func (a *API) MissingRevision(ctx context.Context, revision int64, kinds ...string) string {
	return a.missingRevision(ctx, revision, kinds...)
}

func (a *API) MissingOperation(ctx context.Context, path string) string {
	return a.missingOperation(ctx, path)
}

// WithServer exports withServer for tests.
func WithServer(kubeconfig []byte, address string) []byte { return withServer(kubeconfig, address) }
