// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Uninstall takes the operator off the seed, as if it had never been there but for the definitions, and returns a file with the values
// that an installation needs there: its images, and who may do what. At the end of the story the operator is installed as it was.
func (o *Operator) Uninstall(ctx context.Context) string {
	GinkgoHelper()

	folder := GinkgoT().TempDir()
	values := filepath.Join(folder, "values.yaml")
	Expect(os.WriteFile(values, o.helm(ctx, "get", "values", operatorName, "--output=json"), 0o600)).To(Succeed())

	DeferCleanup(func(ctx SpecContext) {
		o.helm(ctx, "upgrade", "--install", operatorName, filepath.Join("..", "..", "charts", operatorName), "--values="+values, "--take-ownership", "--wait")
		o.EventuallyLeads(ctx)
	})
	o.helm(ctx, "uninstall", operatorName, "--wait")

	// The seed's own resource manager does what the embedded one would do.
	return values
}

func (o *Operator) helm(ctx context.Context, args ...string) []byte {
	GinkgoHelper()

	command := exec.CommandContext(ctx, "helm", append(args, "--namespace="+o.Deployment.Namespace)...) // #nosec G204 -- what this file says
	out, err := command.Output()
	_, _ = fmt.Fprintf(GinkgoWriter, "helm %v\n", args)

	var exit *exec.ExitError
	if errors.As(err, &exit) {
		Fail(fmt.Sprintf("helm %v: %s", args, exit.Stderr))
	}

	Expect(err).NotTo(HaveOccurred())

	return out
}
