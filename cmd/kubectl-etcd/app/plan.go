// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

func (p *plugin) planCommand() *cobra.Command {
	file := ""
	command := &cobra.Command{
		Use:   "plan [NAME] [-f FILE]",
		Short: "Show what the operator would do with a changed manifest, and do nothing",
		Long: "Show what the operator would do with a changed manifest, step by step with the quorum calculation, and do nothing. The\n" +
			"operator's own engine decides, on a simulated cluster that begins as the cluster is now and in which all goes well.\n" +
			"Without a file the stored spec is planned. Images and defaults are those of the last rollout. A reconciliation uses\n" +
			"those of the running operator, which may be newer.",
		Example: "  kubectl etcd plan -f etcd-main.yaml\n  kubectl get etcd etcd-main -o yaml | sed 's/replicas: 1/replicas: 3/' | kubectl etcd plan -f -",
		Args:    atMostOneName, ValidArgsFunction: p.completeNames,
		RunE: func(command *cobra.Command, args []string) error {
			session, err := p.connect()
			if err != nil {
				return err
			}
			stored, wanted, err := p.planned(command.Context(), session, args, file)
			if err != nil {
				return err
			}
			lines, err := session.simulate(command.Context(), stored, wanted)
			if err != nil {
				return err
			}

			return report.Plan(p.Out, wanted.Name, lines)
		},
	}
	command.Flags().StringVarP(&file, "filename", "f", "", "the manifest of one Etcd, - for standard input")

	return command
}

// planned is the Etcd as it is stored, nil if it is not, and as it is to be rolled out, in its current form.
func (p *plugin) planned(ctx context.Context, session *session, args []string, file string) (stored, wanted *druidv1alpha1.Etcd, err error) {
	if file == "" {
		stored, wanted, err = session.etcd(ctx, args)

		return stored, wanted, err
	}
	if len(args) > 0 {
		return nil, nil, usageError{errors.New("the name is in the file; give one or the other")}
	}
	manifest, err := p.read(file)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case manifest.Namespace == "":
		manifest.Namespace = session.namespace
	case *p.flags.Namespace != "" && manifest.Namespace != session.namespace:
		return nil, nil, usageError{fmt.Errorf("the manifest has the namespace %s, and -n says %s; give one or the other", manifest.Namespace, session.namespace)}
	default:
		session.namespace = manifest.Namespace
	}
	stored = &druidv1alpha1.Etcd{}
	err = session.Get(ctx, client.ObjectKeyFromObject(manifest), stored)
	switch {
	case apierrors.IsNotFound(err):
		stored = nil
	case err != nil:
		return nil, nil, explain(err)
	default:
		manifest.UID, manifest.Status, manifest.Generation = stored.UID, stored.Status, stored.Generation
	}
	canonical, errs := helper.Canonical(manifest)

	return stored, canonical, errs.ToAggregate()
}

// read reads the manifest of one Etcd; fields that an Etcd does not have are an error.
func (p *plugin) read(file string) (*druidv1alpha1.Etcd, error) {
	content, err := []byte(nil), error(nil)
	if file == "-" {
		content, err = io.ReadAll(p.In)
	} else {
		content, err = os.ReadFile(file) // #nosec G304 -- the file that the user names
	}
	if err != nil {
		return nil, err
	}
	etcd := &druidv1alpha1.Etcd{}
	if err := yaml.UnmarshalStrict(content, etcd); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if etcd.Kind != "Etcd" || etcd.Name == "" {
		return nil, fmt.Errorf("%s holds the kind %q with the name %q, and has to hold one Etcd", file, etcd.Kind, etcd.Name)
	}

	return etcd, nil
}
