// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var (
	heading = regexp.MustCompile(`^#+ (.+)$`)
	// placeholder matches a placeholder that a reader replaces. It is a word in capital letters that is neither a shell variable
	// nor an assignment.
	placeholder = regexp.MustCompile(`[${]?\b[A-Z]{4,}\b=?`)
)

// Commands returns the shell commands of the page below the heading, up to the next heading. The script has one line for
// each line of the page. Therefore the line numbers in messages of the shell are those of the page.
func Commands(page, section string) (string, error) {
	content, err := os.ReadFile(page) // #nosec G304 -- a page of the repository
	if err != nil {
		return "", err
	}

	var (
		script          strings.Builder
		inside, fenced  bool
		language, found = "", false
	)

	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced, language = !fenced, strings.TrimPrefix(line, "```")
		case fenced && (language == "sh" || language == "bash") && inside:
			found = true
			script.WriteString(line)
		case !fenced && heading.MatchString(line):
			inside = heading.FindStringSubmatch(line)[1] == section
		}

		script.WriteString("\n")
	}

	if !found {
		return "", fmt.Errorf("%s has no commands below the heading %q", page, section)
	}

	return script.String(), nil
}

// workingDirectory returns a directory with only those folders of the repository that the commands of the docs use.
func workingDirectory() string {
	GinkgoHelper()

	folder := GinkgoT().TempDir()

	for _, name := range []string{"charts", "example"} {
		path, err := filepath.Abs(filepath.Join("..", "..", name))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Symlink(path, filepath.Join(folder, name))).To(Succeed())
	}

	return folder
}

// Follow executes the commands of a page in docs below the heading, with the programs of the seed in PATH. It returns their
// output. It replaces the placeholders like a reader. Every placeholder needs a value.
func (ns *TestNamespace) Follow(ctx context.Context, page, section string, placeholders map[string]string) string {
	GinkgoHelper()

	path := filepath.Join("..", "..", "docs", filepath.FromSlash(page))
	commands, err := Commands(path, section)
	Expect(err).NotTo(HaveOccurred())

	script := placeholder.ReplaceAllStringFunc(commands, func(word string) string {
		value, found := placeholders[word]
		if !found && !strings.ContainsAny(word, "${=") {
			Fail(fmt.Sprintf("%s, %s: no value for the placeholder %s", page, section, word))
		}

		return cmp.Or(value, word)
	})

	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script) // #nosec G204 -- commands of a page of the repository
	command.Dir = workingDirectory()
	command.Env = ns.environment
	command.WaitDelay = time.Second // a background process of the page keeps the output open
	out, err := command.CombinedOutput()
	_, _ = fmt.Fprintf(GinkgoWriter, "%s, %s:\n%s\n%s\n", page, section, strings.TrimSpace(script), out)
	Expect(err).NotTo(HaveOccurred(), func() string { return fmt.Sprintf("%s, %s:\n%s\n%s", page, section, out, ns.State()) })

	return string(out)
}
