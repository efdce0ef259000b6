// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The words command counts the terms that words.yaml replaces. It has two classes: identifiers of Go files, and words in
// comments, string literals, documents, manifests, scripts and file names. It fails if a count differs from budget.yaml, so
// that a count can only fall. It reads the files of one Git repository and writes no file except budget.yaml.
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

// mostHits is the largest number of hits that are printed without -list.
const mostHits = 100

// Options are the flags of the command.
type Options struct {
	// List prints each hit. Without it, the hits are printed only if a count exceeds its budget and they are few.
	List bool
	// Summary prints the number of hits of each term.
	Summary bool
	// Lower writes the counts into budget.yaml. It never raises a budget.
	Lower bool
	// Vale prints the rule for vale, and checks nothing.
	Vale bool
	// Paths restricts the printed hits to these files and directories. Empty: all. The two totals always cover all files.
	Paths []string
}

func main() {
	var options Options

	flag.BoolVar(&options.List, "list", false, "print each hit as path:line: class \"term\": use \"replacement\"")
	flag.BoolVar(&options.Summary, "summary", false, "print the number of hits of each term")
	flag.BoolVar(&options.Lower, "lower", false, "write lower counts into "+folder+"/budget.yaml")
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

	file := filepath.Join(root, folder, "budget.yaml")

	budget, err := LoadBudget(file)
	if err != nil {
		return err
	}

	hits, err := Scan(root, dictionary)
	if err != nil {
		return err
	}

	hits = exceptions.Filter(hits)
	counts := count(hits)

	if options.Lower {
		budget = budget.Lower(counts)
		if err := budget.Write(file); err != nil {
			return err
		}
	}

	shown := within(hits, options.Paths)
	switch {
	case options.List, budget.IsExceeded(counts) && len(shown) <= mostHits:
		printHits(out, shown)
	case budget.IsExceeded(counts):
		fmt.Fprintln(out, "`go run ./hack/words -list PATH` lists the terms in a file or directory.")
	}

	if options.Summary {
		printSummary(out, shown)
	}

	fmt.Fprintf(out, "%d identifiers (budget %d)\n%d words (budget %d)\n", counts.Identifiers, budget.Identifiers, counts.Words, budget.Words)

	return errors.Join(budget.Check(counts), exceptions.CheckUsed())
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

func printHits(out io.Writer, hits []Hit) {
	for _, hit := range hits {
		fmt.Fprintln(out, hit)
	}
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
