// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// pictures makes the pictures of the documentation: of the dashboards, and of a terminal. It needs no Plutono. Prometheus evaluates the queries
// of the dashboards over recorded metrics, and Chromium draws the results.
//
//	go run -C hack/pictures . record DIRECTORY    scrapes the local seed until it is interrupted
//	go run -C hack/pictures . import DIRECTORY    writes testdata/ from the scrapes
//	go run -C hack/pictures . render              draws docs/operations/pictures/ from testdata/
package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

// The directories and files of the repository, relative to this module.
const (
	recordings     = "testdata"
	metricsFile    = "metrics.txt.gz"
	picturesFile   = "pictures.yaml"
	pictures       = "../../docs/operations/pictures"
	dashboardFiles = "../../charts/gardener-extension-etcd-druid/files/dashboards"
	readFile       = "../../test/rules/metrics.json"
)

// Pictures is the content of pictures.yaml.
type Pictures struct {
	Dashboards []DashboardPicture `json:"dashboards"`
	Terminals  []TerminalPicture  `json:"terminals"`
}

// DashboardPicture is a picture of a dashboard.
type DashboardPicture struct {
	// File is the name of the picture without its extension.
	File string `json:"file"`
	// Dashboard is the file of the dashboard.
	Dashboard string `json:"dashboard"`
	// Variables are the values of the variables of the dashboard.
	Variables map[string]string `json:"variables"`
	// To is the time of the values, and the end of the graphs. Unset: the end of the recording.
	To time.Time `json:"to"`
	// Length is the length of the graphs. Unset: since the start of the recording.
	Length string `json:"length"`
	// Width is the width of the picture in pixels.
	Width int `json:"width"`
}

// TerminalPicture is a picture of a command with its output.
type TerminalPicture struct {
	// File is the name of the picture, and of the file with the output in testdata/, without the extension.
	File string `json:"file"`
	// Command is the command.
	Command string `json:"command"`
	// Source is the output in the directory of the scrapes.
	Source string `json:"source"`
	// Tail is the number of lines at the end of the output that the picture shows. Unset: all lines.
	Tail int `json:"tail"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "record":
		return (&Recorder{Directory: arguments[1], Log: os.Stderr}).Run(ctx)
	case len(arguments) == 2 && arguments[0] == "import":
		return importScrapes(arguments[1])
	case len(arguments) == 1 && arguments[0] == "render":
		return render(ctx)
	default:
		return errors.New("usage: record DIRECTORY, import DIRECTORY, or render")
	}
}

func readPictures() (*Pictures, error) {
	content, err := os.ReadFile(picturesFile)
	if err != nil {
		return nil, err
	}

	pictures := &Pictures{}

	return pictures, yaml.UnmarshalStrict(content, pictures)
}

// importScrapes writes the metrics and the outputs of commands that the pictures need, with the new names of namespaces.
func importScrapes(directory string) error {
	read, err := ReadMetrics(readFile)
	if err != nil {
		return err
	}

	list, err := readPictures()
	if err != nil {
		return err
	}

	names := &Names{}

	recording, err := Import(directory, read, names)
	if err != nil {
		return err
	}

	for _, terminal := range list.Terminals {
		output, err := os.ReadFile(filepath.Join(directory, terminal.Source))
		if err != nil {
			return err
		}

		text := last(names.Text(string(output)), terminal.Tail)
		if err := write(filepath.Join(recordings, terminal.File+".txt"), func(w io.Writer) error {
			_, err := io.WriteString(w, text)

			return err
		}); err != nil {
			return err
		}
	}

	fmt.Printf("%d series from %s to %s\n", len(recording.Series), recording.Start.Format(time.RFC3339), recording.End().Format(time.RFC3339))

	return write(filepath.Join(recordings, metricsFile), func(w io.Writer) error {
		compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}

		_, err = recording.WriteTo(compressed)

		return errors.Join(err, compressed.Close())
	})
}

// last returns the last n lines of a text. Zero: all lines.
func last(text string, n int) string {
	lines := strings.SplitAfter(strings.TrimRight(text, "\n")+"\n", "\n")
	lines = lines[:len(lines)-1] // after the last line is nothing

	if n > 0 && n < len(lines) {
		lines = lines[len(lines)-n:]
	}

	return strings.Join(lines, "")
}

// render draws all pictures.
func render(ctx context.Context) error {
	list, err := readPictures()
	if err != nil {
		return err
	}

	for _, terminal := range list.Terminals {
		output, err := os.ReadFile(filepath.Join(recordings, terminal.File+".txt"))
		if err != nil {
			return err
		}

		if err := write(filepath.Join(pictures, terminal.File+".svg"), func(w io.Writer) error {
			return WriteTerminal(w, terminal.Command, string(output))
		}); err != nil {
			return err
		}
	}

	return renderDashboards(ctx, list.Dashboards)
}

func renderDashboards(ctx context.Context, list []DashboardPicture) error {
	browser, err := findBrowser()
	if err != nil {
		return err
	}

	recording, err := openRecording()
	if err != nil {
		return err
	}

	prometheus, err := NewPrometheus(ctx, recording)
	if err != nil {
		return err
	}
	defer func() { _ = prometheus.Close() }()

	for _, picture := range list {
		page, err := picture.page(ctx, prometheus, recording)
		if err != nil {
			return fmt.Errorf("%s: %w", picture.File, err)
		}

		if err := screenshot(ctx, browser, page, filepath.Join(pictures, picture.File+".png")); err != nil {
			return err
		}
	}

	return nil
}

func openRecording() (*Recording, error) {
	file, err := os.Open(filepath.Join(recordings, metricsFile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()

	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}

	return ReadRecording(text)
}

// page evaluates the dashboard of a picture.
func (p DashboardPicture) page(ctx context.Context, prometheus *Prometheus, recording *Recording) (*Page, error) {
	dashboard, err := ReadDashboard(filepath.Join(dashboardFiles, p.Dashboard), p.Variables)
	if err != nil {
		return nil, err
	}

	during := Range{From: recording.Start, To: recording.End()}
	if !p.To.IsZero() {
		during.To = p.To.UTC()
	}

	if p.Length != "" {
		length, err := time.ParseDuration(p.Length)
		if err != nil {
			return nil, err
		}

		during.From = during.To.Add(-length)
	}

	variables := map[string]string{"datasource": "seed"}
	for name, value := range p.Variables {
		variables[name] = value
	}

	return prometheus.Page(ctx, dashboard, variables, during, max(p.Width, 1400))
}
