// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The words command finds the terms that words.yaml replaces. It has two classes: identifiers of Go files, and words in
// comments, string literals, documents, manifests, scripts and file names. It prints each hit and fails if there is any. It
// reads the files of one Git repository and writes no file.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// folder holds the data files, relative to the root of the repository.
const folder = "hack/words"

// Options are the flags of the command.
type Options struct {
	// Summary prints the number of hits of each term.
	Summary bool
	// Vale prints the rule for vale, and checks nothing.
	Vale bool
	// Paths restricts the printed hits to these files and directories. Empty: all. The two totals always cover all files.
	Paths []string
}

func main() {
	var options Options

	flag.BoolVar(&options.Summary, "summary", false, "print the number of hits of each term")
	flag.BoolVar(&options.Vale, "vale", false, "print the words as a rule of vale, and check nothing")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: go run ./hack/words [flags] [path ...]\n")
		flag.PrintDefaults()
	}
	flag.Parse()

	options.Paths = flag.Args()

	if err := run(os.Stdout, ".", options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run checks the repository at root.
func run(out io.Writer, root string, options Options) error {
	dictionary, err := LoadDictionary(filepath.Join(root, folder, "words.yaml"))
	if err != nil {
		return err
	}

	if options.Vale {
		return WriteVale(out, dictionary)
	}

	exceptions, err := LoadExceptions(filepath.Join(root, folder, "exceptions.yaml"))
	if err != nil {
		return err
	}

	hits, err := Scan(root, dictionary)
	if err != nil {
		return err
	}

	hits = exceptions.Filter(hits)
	shown := within(hits, options.Paths)

	for _, hit := range shown {
		fmt.Fprintln(out, hit)
	}

	if options.Summary {
		printSummary(out, shown)
	}

	identifiers := countOf(hits, ClassIdentifier)
	words := len(hits) - identifiers
	fmt.Fprintf(out, "%d identifiers, %d words\n", identifiers, words)

	return errors.Join(check(len(hits)), exceptions.CheckUsed())
}

// countOf counts the hits of a class.
func countOf(hits []Hit, class Class) int {
	count := 0

	for _, hit := range hits {
		if hit.Class == class {
			count++
		}
	}

	return count
}

// check returns an error if there is any hit.
func check(hits int) error {
	if hits == 0 {
		return nil
	}

	return fmt.Errorf("%d terms of %s/words.yaml are in use: use the replacements", hits, folder)
}

// within returns the hits in the given files and directories.
func within(hits []Hit, paths []string) []Hit {
	if len(paths) == 0 {
		return hits
	}

	return slices.DeleteFunc(slices.Clone(hits), func(hit Hit) bool {
		return !slices.ContainsFunc(paths, func(path string) bool {
			path = filepath.ToSlash(filepath.Clean(path))

			return path == "." || hit.Path == path || strings.HasPrefix(hit.Path, path+"/")
		})
	})
}

// printSummary prints the terms by the number of their hits, the most frequent one first.
func printSummary(out io.Writer, hits []Hit) {
	type term struct{ class, name string }

	numbers := map[term]int{}
	for _, hit := range hits {
		numbers[term{string(hit.Class), hit.Term}]++
	}

	terms := slices.SortedFunc(maps.Keys(numbers), func(a, b term) int {
		return cmp.Or(cmp.Compare(numbers[b], numbers[a]), cmp.Compare(a.class+a.name, b.class+b.name))
	})
	for _, term := range terms {
		fmt.Fprintf(out, "%6d %s %q\n", numbers[term], term.class, term.name)
	}
}
