// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Command release writes the files of a release to dist: kubectl-etcd for six platforms with its krew manifest, and the chart. It adds
// software bills of materials, release notes and checksums. Equal sources and an equal version of Go result in equal bytes. All archives contain the
// time of the commit.
//
// goreleaser is not used, because hack/build.sh already defines how all programs are built, also for the image.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "dist", "directory of the files, whose content is replaced")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	version, err := os.ReadFile("VERSION")
	if err != nil {
		return err
	}
	modified, err := commitTime(ctx, os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	r := release{
		root: ".", out: out, version: cmp.Or(os.Getenv("EFFECTIVE_VERSION"), strings.TrimSpace(string(version))), modified: modified,
		platforms: platforms, programs: imagePrograms,
	}
	if err := r.write(ctx); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(out, "*"))
	for _, file := range files {
		fmt.Println(file)
	}

	return err
}

// commitTime returns the time in the files: the environment variable SOURCE_DATE_EPOCH if it is set, otherwise the time of the commit.
func commitTime(ctx context.Context, epoch string) (time.Time, error) {
	if epoch == "" {
		output, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("git cannot read the time of the commit, set SOURCE_DATE_EPOCH to the seconds since 1970: %w", err)
		}
		epoch = strings.TrimSpace(string(output))
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH must be the seconds since 1970: %w", err)
	}

	return time.Unix(seconds, 0).UTC(), nil
}
