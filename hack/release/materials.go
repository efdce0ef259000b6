// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	billOfMaterialsSuffix = ".cdx.json"
	apiModule             = "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid"
)

// program is a program of the image. Its arguments are those of hack/build.sh, without -o.
type program struct {
	name, module, pkg string
}

var imagePrograms = []program{
	{name: chart, pkg: "./cmd/" + chart},
	{name: "etcd-helper", module: "cmd/etcd-helper", pkg: "."},
}

// programBillOfMaterials builds a program for linux/amd64 as the file built. The modules do not depend on the architecture.
func (r release) programBillOfMaterials(ctx context.Context, p program, built string) ([]byte, error) {
	arguments := []string{"-o", built, p.pkg}
	if p.module != "" {
		arguments = append([]string{"-C", p.module}, arguments...)
	}
	if err := r.build(ctx, platform{"linux", "amd64"}, arguments...); err != nil {
		return nil, err
	}

	return r.billOfMaterials(ctx, built)
}

// billOfMaterials lists the modules that the linker has written to a binary, as CycloneDX.
func (r release) billOfMaterials(ctx context.Context, binary string) ([]byte, error) {
	output, err := r.command(ctx, nil, "go", "tool", "-modfile=hack/sbom/go.mod", "cyclonedx-gomod", "bin", "-json", "-noserial", "-notimestamp", "-version", r.version, binary)
	if err != nil {
		return nil, err
	}
	// cyclonedx-gomod names the API module by its directory, because go.mod replaces it.
	text := strings.NewReplacer("./pkg/apis/druid@(devel)", apiModule+"@"+r.version, `"./pkg/apis/druid"`, `"`+apiModule+`"`, `"(devel)"`, `"`+r.version+`"`).Replace(string(output))
	materials := map[string]any{}
	if err := json.Unmarshal([]byte(text), &materials); err != nil {
		return nil, fmt.Errorf("cyclonedx-gomod has not printed JSON: %w", err)
	}
	withoutHashesOfTools(materials)
	encoded, err := json.MarshalIndent(materials, "", "  ")

	return append(encoded, '\n'), err
}

// withoutHashesOfTools removes the hashes of cyclonedx-gomod itself, which depend on the machine that has built it.
func withoutHashesOfTools(materials map[string]any) {
	metadata, _ := materials["metadata"].(map[string]any)
	tools, _ := metadata["tools"].([]any)
	for _, tool := range tools {
		if tool, ok := tool.(map[string]any); ok {
			delete(tool, "hashes")
		}
	}
}
