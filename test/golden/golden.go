// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package golden stores the expected output of test cases. The output of one case is stored in full, or as a unified diff against
// the output of another case in the same folder.
package golden

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"github.com/pmezard/go-difflib/difflib"
)

const (
	// Variable is the environment variable that is 1 when tests must write their golden files.
	Variable = "UPDATE_GOLDEN"

	extension = ".golden.yaml"
	diff      = ".diff"
	context   = 3
)

// IsUpdate returns true when tests must write their golden files instead of only comparing them.
func IsUpdate() bool { return os.Getenv(Variable) == "1" }

// Path returns the path of the golden file of a case. If the case is stored as a diff, no file has this path, but Read accepts it.
func Path(folder, name string) string { return filepath.Join(folder, name+extension) }

// Paths returns the path of each case in the folder, sorted. It fails if the folder contains no golden file.
func Paths(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"+extension+"*"))
	if err != nil {
		return nil, err
	}

	if len(files) == 0 {
		return nil, fmt.Errorf("no golden file in %s", folder)
	}

	for i := range files {
		files[i] = strings.TrimSuffix(files[i], diff)
	}

	slices.Sort(files)

	return files, nil
}

// Read returns the full output of the case with the path. If the case is stored as a diff, Read applies it to the output of its
// base. It fails if neither file exists, or if one line of the diff does not fit the base.
func Read(path string) (string, error) {
	patch, err := os.ReadFile(path + diff) // #nosec G304 -- a file of this repository
	if os.IsNotExist(err) {
		var text []byte

		text, err = os.ReadFile(path) // #nosec G304 -- a file of this repository

		return string(text), err
	}

	if err != nil {
		return "", err
	}

	text, err := apply(filepath.Dir(path), string(patch))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path+diff, err)
	}

	return text, nil
}

// Write stores the output of the case with the path. Base is the name of another case in the same folder that is stored in full.
// Write then stores only the difference and removes the file with the full text. If base is empty, Write stores the full text.
// It fails if one of the two texts does not end with a newline.
func Write(path, base, text string) error {
	content, stored, stale := text, path, path+diff

	if base != "" {
		from, err := os.ReadFile(Path(filepath.Dir(path), base)) // #nosec G304 -- a file of this repository
		if err != nil {
			return err
		}

		content, err = compare(base+extension, string(from), filepath.Base(path), text)
		if err != nil {
			return err
		}

		stored, stale = path+diff, path
	}

	if err := os.Remove(stale); err != nil && !os.IsNotExist(err) {
		return err
	}

	return os.WriteFile(stored, []byte(content), 0o600) // #nosec G703 -- a golden file of the calling test
}

// compare returns a unified diff. If both texts are equal, the diff contains only the file names.
func compare(from, before, to, after string) (string, error) {
	for _, text := range []string{before, after} {
		if !strings.HasSuffix(text, "\n") {
			return "", fmt.Errorf("%s or %s does not end with a newline", from, to)
		}
	}

	hunks, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(before), B: lines(after), Context: context})

	return "--- " + from + "\n+++ " + to + "\n" + hunks, err
}

func lines(text string) []string { return slices.Collect(strings.Lines(text)) }

// apply applies the patch to its base and returns the result.
func apply(folder, patch string) (string, error) {
	header, hunks, _ := strings.Cut(patch, "\n+++ ")

	base, err := os.ReadFile(filepath.Join(folder, filepath.Base(strings.TrimPrefix(header, "--- ")))) // #nosec G304 -- a file of this repository
	if err != nil {
		return "", err
	}

	if !strings.Contains(hunks, "\n@@ ") {
		return string(base), nil
	}

	files, _, err := gitdiff.Parse(strings.NewReader(patch))
	if err != nil {
		return "", err
	}

	if len(files) != 1 {
		return "", fmt.Errorf("%d files instead of one", len(files))
	}

	var text bytes.Buffer

	err = gitdiff.Apply(&text, bytes.NewReader(base), files[0])

	return text.String(), err
}
