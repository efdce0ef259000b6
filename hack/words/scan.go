// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Class is what a hit was found in.
type Class string

const (
	// ClassIdentifier is the class of Go identifiers.
	ClassIdentifier Class = "identifier"
	// ClassWord is the class of words in prose and in file names.
	ClassWord Class = "word"
)

// Hit is one use of a term of the dictionary.
type Hit struct {
	// Path is relative to the root of the repository, with slashes.
	Path string
	// Number is the number of the line, from 1. 0: the term is in the file name.
	Number int
	// Line is the text of the line. For a file name it is the path.
	Line string
	// Class is what the term was found in.
	Class Class
	// Term is the term of the dictionary.
	Term string
	// Identifier is the whole identifier. Empty: the term was found in prose.
	Identifier string
	// Use is the replacement.
	Use string
}

// String returns the hit as path:line: class "term": use "replacement".
func (h Hit) String() string {
	position := h.Path
	if h.Number > 0 {
		position = fmt.Sprintf("%s:%d", h.Path, h.Number)
	}

	found := h.Term
	if h.Identifier != "" {
		found = h.Identifier
	}

	return fmt.Sprintf("%s: %s %q: use %q", position, h.Class, found, h.Use)
}

// Scan returns the uses of the dictionary's terms in the repository at root, in the order of paths and lines.
func Scan(root string, dictionary *Dictionary) ([]Hit, error) {
	paths, err := list(root)
	if err != nil {
		return nil, err
	}

	var (
		hits        []Hit
		identifiers = newIdentifierMatcher(dictionary)
		words       = newWordMatcher(dictionary.Words)
		named       = map[string]bool{}
	)

	for _, name := range paths {
		if dictionary.isSkipped(name) {
			continue
		}

		hits = append(hits, matchFileName(dictionary.Files, words, name, named)...)

		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name))) // #nosec G304 -- a file of the repository
		if err != nil {
			return nil, err
		}

		if !utf8.Valid(text) || bytes.ContainsRune(text, 0) {
			continue
		}

		if path.Ext(name) == ".go" {
			found, err := matchGo(identifiers, words, name, text)
			if err != nil {
				return nil, err
			}

			hits = append(hits, found...)
		} else {
			hits = append(hits, words.match(name, text, string(text), 0)...)
		}
	}

	slices.SortStableFunc(hits, func(a, b Hit) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}

		return a.Number - b.Number
	})

	return hits, nil
}

// list returns the files of the repository that Git tracks or would add, and that exist.
func list(root string) ([]string, error) {
	command := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard") // #nosec G204 -- git, with constant arguments and the folder that the caller names
	command.Stderr = os.Stderr

	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}

	paths := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	paths = slices.DeleteFunc(paths, func(name string) bool {
		info, err := os.Lstat(filepath.Join(root, filepath.FromSlash(name)))

		return err != nil || !info.Mode().IsRegular()
	})
	slices.Sort(paths)

	return slices.Compact(paths), nil
}

// matchFileName returns the hits in the name of a file and in the names of its directories. Each directory is reported once.
func matchFileName(rules []Rule, words *wordMatcher, name string, named map[string]bool) []Hit {
	var hits []Hit

	for _, rule := range rules {
		for _, pattern := range rule.Find {
			if matches(pattern, name) {
				hits = append(hits, Hit{Path: name, Line: name, Class: ClassWord, Term: pattern, Use: rule.Use})
			}
		}
	}

	if len(hits) > 0 {
		return hits
	}

	for at := name; at != "."; at = path.Dir(at) {
		if named[at] {
			break
		}

		named[at] = true
		text := strings.NewReplacer("-", " ", "_", " ", ".", " ").Replace(path.Base(at))

		for _, hit := range words.match(at, []byte(at), text, 0) {
			hit.Number, hit.Line = 0, at
			hits = append(hits, hit)
		}
	}

	return hits
}
