// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// reading reads the data of an inspection in a pod.
type reading struct {
	*plugin
	inspection

	session *session
	pod     string
	out     *exported
}

// run runs the action, or those in the standard input.
func (r *reading) run(ctx context.Context) error {
	if r.verb != "" {
		return r.do(ctx, r.action)
	}
	_, _ = fmt.Fprintln(r.ErrOut, "Enter get KEY, list [PREFIX] or diff [PREFIX], and end the input to delete the data")
	lines := make(chan string)
	go func() {
		defer close(lines)
		for input := bufio.NewScanner(r.In); input.Scan(); {
			select {
			case lines <- input.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done(): // a read of a terminal does not end with it
			return ctx.Err()
		case line, more := <-lines:
			if !more {
				return nil
			}
			err := r.line(ctx, line)
			wrong := usageError{}
			switch {
			case errors.As(err, &wrong), errors.As(err, new(helperError)):
				_, _ = fmt.Fprintf(r.ErrOut, "error: %v\n", err)
			case err != nil:
				return err
			}
		}
	}
}

// line runs the action in a line.
func (r *reading) line(ctx context.Context, line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil
	}
	do, err := actionOf(words)
	switch {
	case err != nil:
		return usageError{err}
	case do.verb == verbExport:
		return usageError{errors.New("export needs a command of its own, with --file")}
	case do.verb == verbDiff && r.config.CompareWith == nil:
		return usageError{errors.New("diff needs --against-revision or --against-time when the command begins")}
	default:
		return r.do(ctx, do)
	}
}

// do runs the command of etcd-helper for an action in the pod.
func (r *reading) do(ctx context.Context, do action) error {
	command := []string{etcdcluster.HelperPath, do.verb, "--database=" + etcdcluster.InspectedDatabase}
	switch do.verb {
	case verbGet:
		value := &strings.Builder{}
		if err := r.session.execute(ctx, r.pod, append(command, "--output=json", "--values", "--", do.argument), value); err != nil {
			return err
		}

		return r.printValue(value.String())
	case verbDiff:
		command = append(command, "--other-database="+etcdcluster.ComparedDatabase)
	}
	command = append(command, "--")
	if do.argument != "" {
		command = append(command, do.argument)
	}

	return r.session.execute(ctx, r.pod, command, r.out)
}

// printValue writes the value as it is, and what is known about it to ErrOut.
func (p *plugin) printValue(text string) error {
	entry := struct {
		ModRevision int64  `json:"modRevision"`
		Version     int64  `json:"version"`
		Value       []byte `json:"value"`
	}{}
	if err := json.Unmarshal([]byte(text), &entry); err != nil {
		return fmt.Errorf("reading the output of etcd-helper: %w", err)
	}
	_, _ = fmt.Fprintf(p.ErrOut, "Mod revision %d, version %d, %d bytes, %s\n", entry.ModRevision, entry.Version, len(entry.Value), report.MediaType(entry.Value))
	_, err := p.raw.Out.Write(entry.Value) // it may be binary

	return err
}

// exported is where the output of a verb goes: the standard output, or a new file that exists only after a success.
type exported struct {
	*terminal

	file *os.File
}

func (p *plugin) target(in inspection) (*exported, error) {
	if in.verb != verbExport {
		return &exported{terminal: &terminal{Writer: p.raw.Out}}, nil
	}
	file, err := os.OpenFile(in.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- the user names the file
	if errors.Is(err, os.ErrExist) {
		return nil, usageError{fmt.Errorf("--file: %s exists: use a new file", in.file)}
	}
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}

	return &exported{file: file}, nil
}

// Write implements io.Writer.
func (e *exported) Write(text []byte) (int, error) {
	if e.file != nil {
		return e.file.Write(text)
	}

	return e.terminal.Write(text)
}

// keep closes the file.
func (e *exported) keep() error {
	if e.file == nil {
		return nil
	}

	return e.file.Close()
}

// discard removes the file.
func (e *exported) discard() error {
	if e.file == nil {
		return nil
	}

	return errors.Join(e.file.Close(), os.Remove(e.file.Name()))
}
