// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/network"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/seed"
)

func commands() []command {
	return []command{
		{name: "build", help: "build the programs and images of the seed and of the tests into the cache", run: runBuild},
		{name: "assets", help: "build what integration tests need and print the directory for KUBEBUILDER_ASSETS", run: runAssets},
		{name: "image", args: "[TAR]", help: "pack the operator's image as a docker archive, into bin/ of the checkout, and print its path", run: runImage},
		{name: "up", args: "[--nodes 3] [--example=false] [--volumes-in-memory] [IMAGES]", help: "start the cluster, or what does not run of it", changes: true, run: runUp},
		{name: "down", help: "stop the cluster and remove everything except the cache; with the seed also the other clusters", changes: true, run: runDown},
		{name: "deploy", args: "[--source=DIRECTORY] [--values=FILE] [IMAGES]", help: "build the operator again and roll it out with its Helm chart", changes: true, run: runDeploy},
		{name: "pack", args: "PROGRAM NAME:TAG TAR", help: "pack the program of a wrapper or a sidecar as a docker archive", run: func(_ context.Context, s *seed.Seed, args []string, _ io.Writer) error {
			if len(args) != 3 {
				return errors.New("expected the path of the program, the name of the image with its tag, and the path of the archive")
			}

			return s.PackProgram(args[0], args[1], args[2])
		}},
		{name: "kind-up", args: "[--dry-run]", help: "create a cluster with kind on the container engine of this machine, and install the operator", run: runKindUp},
		{name: "kind-down", help: "delete the cluster of kind-up", run: func(ctx context.Context, s *seed.Seed, _ []string, _ io.Writer) error { return s.KindDown(ctx) }},
		{name: "status", help: "show processes, nodes and paths", run: func(ctx context.Context, s *seed.Seed, _ []string, out io.Writer) error {
			return s.Status(ctx, out)
		}},
		{name: "logs", args: "PROCESS [-f]", help: "print the log of a process", run: runLogs},
		{name: "test-images", help: "build the images that only tests need, the object store and the wrapper for etcd 3.5, and load them into every node", changes: true, run: func(ctx context.Context, s *seed.Seed, _ []string, _ io.Writer) error {
			return s.LoadTestImages(ctx)
		}},
		{name: "partition", args: "NODE", help: "disconnect the node from the network", changes: true, run: onNode((*seed.Seed).Partition)},
		{name: "heal", args: "NODE", help: "connect the node to the network again", changes: true, run: onNode((*seed.Seed).Heal)},
		{name: "stop-node", args: "NODE", help: "stop the node as a power cut does; its volumes stay", changes: true, run: onNode((*seed.Seed).StopNode)},
		{name: "start-node", args: "NODE", help: "start the node again", changes: true, run: onNode((*seed.Seed).StartNode)},
		{name: "program-weight", args: "FRACTION", help: "set how much CPU time the programs of the cluster get on a busy machine, relative to all pods; `up` sets 1", changes: true, run: runProgramWeight},
		{name: "kubeconfig", help: "print the path of the kubeconfig", run: func(_ context.Context, s *seed.Seed, _ []string, out io.Writer) error {
			_, err := fmt.Fprintln(out, s.Layout.Kubeconfig())
			return err
		}},
		{name: "env", help: "print exports of KUBECONFIG, PATH and other variables for `eval`", run: runEnv},
	}
}

func onNode(act func(*seed.Seed, context.Context, string) error) func(context.Context, *seed.Seed, []string, io.Writer) error {
	return func(ctx context.Context, s *seed.Seed, args []string, _ io.Writer) error {
		if len(args) != 1 {
			return errors.New("expected the name of one node, such as n3")
		}

		return act(s, ctx, args[0])
	}
}

func runProgramWeight(_ context.Context, s *seed.Seed, args []string, _ io.Writer) error {
	if len(args) != 1 {
		return errors.New("expected one fraction, such as 0.25")
	}

	fraction, err := strconv.ParseFloat(args[0], 64)
	if err != nil || fraction <= 0 || fraction > 1 {
		return fmt.Errorf("expected a fraction greater than 0 and at most 1, not %q", args[0])
	}

	return s.WeighPrograms(fraction)
}

func runBuild(ctx context.Context, s *seed.Seed, _ []string, _ io.Writer) error {
	// Before Build, so that all modules are one build.
	if err := s.Builder.Ensure(ctx, true, build.Tested()...); err != nil {
		return err
	}

	archives, err := s.Build(ctx, false)
	if err != nil {
		return err
	}

	s.Out.Println("%d modules and %d images are in %s", len(build.Tested()), len(archives), s.Layout.Cache)

	return nil
}

func runAssets(ctx context.Context, s *seed.Seed, _ []string, out io.Writer) error {
	dir, err := s.Assets(ctx)
	if err != nil {
		return err
	}

	_, err = fmt.Fprintln(out, dir)

	return err
}

func runImage(ctx context.Context, s *seed.Seed, args []string, out io.Writer) error {
	file := filepath.Join(s.Layout.Root, "bin", "gardener-extension-etcd-druid.tar")
	if len(args) > 0 {
		file = args[0]
	}

	if err := s.PackOperator(ctx, file); err != nil {
		return err
	}

	_, err := fmt.Fprintln(out, file)

	return err
}

// imageFlags adds a flag for each image that the user can replace. The result contains the values after flags.Parse.
func imageFlags(flags *flag.FlagSet) seed.Images {
	images := seed.Images{}

	for _, setting := range seed.ImageSettings {
		name := strings.ReplaceAll(strings.ToLower(setting.Variable), "_", "-")
		flags.Func(name, "archive or reference of the image `"+setting.Image+"` (default: the image of the seed)", func(value string) error {
			images[setting.Image] = value
			return nil
		})
	}

	return images
}

func runDeploy(ctx context.Context, s *seed.Seed, args []string, _ io.Writer) error {
	flags := flag.NewFlagSet("deploy", flag.ContinueOnError)
	operator := seed.Operator{Images: imageFlags(flags)}
	flags.StringVar(&operator.Source, "source", "", "root of another checkout with the operator and its chart (default: this checkout)")
	flags.StringVar(&operator.Values, "values", "", "file with values for the chart, instead of the settings of the seed")

	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // Parse has printed the reason
	}

	return s.Deploy(ctx, operator)
}

func runKindUp(ctx context.Context, s *seed.Seed, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("kind-up", flag.ContinueOnError)
	dryRun := flags.Bool("dry-run", false, "print the configuration of the cluster and the arguments of Helm only")

	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // Parse has printed the reason
	}

	return s.KindUp(ctx, *dryRun, out)
}

func runUp(ctx context.Context, s *seed.Seed, args []string, _ io.Writer) error {
	switch s.Layout.Cluster {
	case layout.Bench:
		return runUpBench(ctx, s, args)
	case layout.Shoots:
		return runUpGardener(ctx, s, args)
	case layout.Garden:
		return errors.New("`make gardener-up` starts the garden together with its seed")
	default:
	}

	flags := flag.NewFlagSet("up", flag.ContinueOnError)

	bare := s.Layout.Cluster == layout.Bare
	count := 3

	if bare {
		count = 1
	}

	nodes := flags.Int("nodes", count, "number of nodes")
	example := flags.Bool("example", !bare, "install the operator and apply the example")
	images := imageFlags(flags)
	inMemory := flags.Bool("volumes-in-memory", false, "keep volumes on a tmpfs; they do not survive a reboot")

	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // Parse has printed the reason
	}

	if err := s.Up(ctx, seed.Options{Nodes: *nodes, Operator: *example || bare, VolumesInMemory: *inMemory}); err != nil {
		return err
	}

	s.Out.Println("the %s cluster is up; nodes: %d; KUBECONFIG is %s", s.Layout.Name(), *nodes, s.Layout.Kubeconfig())

	if bare {
		_, values, err := s.PrepareOperator(ctx, seed.Operator{Images: images})
		if err == nil {
			s.Out.Println("docs/usage/first-etcd.md installs the operator; VALUES is %s", values)
		}

		return err
	}

	if !*example {
		return nil
	}

	return s.Example(ctx, images)
}

func runUpBench(ctx context.Context, s *seed.Seed, args []string) error {
	if len(args) > 0 {
		return errors.New("the bench cluster has no options")
	}

	if err := s.UpBench(ctx); err != nil {
		return err
	}

	s.Out.Println("the bench cluster is up, without nodes; KUBECONFIG is %s", s.Layout.Kubeconfig())

	return nil
}

func runUpGardener(ctx context.Context, s *seed.Seed, args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	images := imageFlags(flags)
	shoot := flags.Bool("shoot", true, "create a Shoot")

	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // Parse has printed the reason
	}

	return s.UpGardener(ctx, images, *shoot)
}

func runDown(ctx context.Context, s *seed.Seed, _ []string, _ io.Writer) error {
	if s.Layout.Cluster == layout.Seed {
		if err := s.DownOthers(ctx); err != nil {
			return err
		}
	}

	down := s.Down
	if s.Layout.Cluster == layout.Shoots {
		down = s.DownGardener
	}

	if err := down(ctx); err != nil {
		return err
	}

	s.Out.Println("the %s cluster is down and removed; binaries and images stay in %s", s.Layout.Name(), s.Layout.Cache)

	return nil
}

func runLogs(ctx context.Context, s *seed.Seed, args []string, out io.Writer) error {
	name, follow := "", false

	for _, arg := range args {
		if arg == "-f" || arg == "--follow" {
			follow = true
		} else {
			name = arg
		}
	}

	path, err := s.LogPath(name)
	if err != nil {
		return err
	}

	tail := []string{"-n", "+1", path}
	if follow {
		tail = []string{"-n", "20", "-F", path}
	}

	command := exec.CommandContext(ctx, "tail", tail...)
	command.Stdout = out

	if err := command.Run(); err != nil && ctx.Err() == nil {
		return err
	}

	return nil
}

func runEnv(_ context.Context, s *seed.Seed, _ []string, out io.Writer) error {
	path := s.Builder.CommandDir() + string(os.PathListSeparator) // kubectl-etcd

	for _, program := range [][2]string{{build.Kubernetes, "kubectl"}, {build.Etcd, "etcdctl"}, {build.Helm, "helm"}} {
		file, err := s.Builder.Program(program[0], program[1])
		if err != nil {
			return err
		}

		path += filepath.Dir(file) + string(os.PathListSeparator)
	}

	_, err := fmt.Fprintf(out, "export KUBECONFIG=%q\nexport PATH=%q\"$PATH\"\nexport SEED_AUDIT_LOG=%q\nexport SEED_LOCAL_STORE=%q\n",
		s.Layout.Kubeconfig(), path, s.Layout.AuditLog(), layout.LocalStore)
	if err != nil {
		return err
	}

	if s.Layout.Cluster == layout.Bench {
		if _, err := fmt.Fprintf(out, "export BENCH_NETWORK=%q\nexport BENCH_PIDS=%q\nexport BENCH_POD_CIDR=%q\n",
			network.Path(s.Layout.Node(1)), s.Layout.Pids(), s.Layout.PodCIDR()); err != nil {
			return err
		}
	}

	if s.Layout.Cluster == layout.Shoots {
		if _, err := fmt.Fprintf(out, "export GARDEN_KUBECONFIG=%q\n", s.Layout.Of(layout.Garden).Kubeconfig()); err != nil {
			return err
		}
	}

	if s.Layout.Cluster == layout.Bare {
		if _, err := fmt.Fprintf(out, "export VALUES=%q\n", s.Layout.Values()); err != nil {
			return err
		}
	}

	if direct := os.Getenv("NO_PROXY"); direct != "" {
		_, err = fmt.Fprintf(out, "export NO_PROXY=%q\n", direct)
	}

	return err
}
