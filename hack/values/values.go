// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is a value of values.yaml.
type value struct {
	key         string
	description string
	// node is the default.
	node *yaml.Node
	// children are the keys of a map, in the order of the file.
	children []*value
}

// readValues reads values.yaml with its comments. The comment above a key describes it.
func readValues(path string) (*value, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- a file of the repository
	if err != nil {
		return nil, err
	}
	document := &yaml.Node{}
	if err := yaml.Unmarshal(data, document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s must contain one map", path)
	}

	return newValue("", "", document.Content[0]), nil
}

func newValue(key, comment string, node *yaml.Node) *value {
	created := &value{key: key, description: comment, node: node}
	if node.Kind != yaml.MappingNode {
		return created
	}
	for i := 0; i < len(node.Content); i += 2 {
		name := node.Content[i]
		created.children = append(created.children, newValue(name.Value, name.HeadComment, node.Content[i+1]))
	}

	return created
}

// child returns the child with this key, or nil.
func (v *value) child(key string) *value {
	for _, child := range v.children {
		if child.key == key {
			return child
		}
	}

	return nil
}

// defaultText is the default in one line of Markdown.
func (v *value) defaultText() (string, error) {
	if v.node.Tag == "!!null" {
		return "unset", nil
	}
	var decoded any
	if err := v.node.Decode(&decoded); err != nil {
		return "", err
	}
	encoded, err := json.Marshal(decoded)

	return "`" + strings.ReplaceAll(string(encoded), "|", `\|`) + "`", err
}
