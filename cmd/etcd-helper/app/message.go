// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// maxMessageBytes is the maximum size of a termination message in bytes. The kubelet ignores the end of a longer one.
const maxMessageBytes = 4096

// shortener is a result that can be longer than a termination message.
type shortener interface {
	// Shorten removes details. It returns false if nothing can be removed.
	Shorten() bool
}

// output contains the flags that commands with one result share.
type output struct {
	messagePath string
	timeout     time.Duration
}

func (o *output) addTo(command *cobra.Command) {
	command.Args = cobra.NoArgs
	flags := command.Flags()
	flags.DurationVar(&o.timeout, "timeout", 10*time.Second, "How long to wait while another process has opened the database. 0: without limit.")
	flags.StringVar(&o.messagePath, "termination-message-path", "", "File for the result or the error, for example /dev/termination-log. Empty: none.")
}

// run writes the result to stdout, and the result or the error to the termination message.
func (o *output) run(command *cobra.Command, work func() (any, error)) error {
	result, err := work()
	text := ""
	if err == nil {
		text, err = marshal(result)
	}
	if o.messagePath != "" {
		err = errors.Join(err, writeMessage(o.messagePath, messageFor(result, text, err)))
	}
	if err == nil {
		fmt.Fprintln(command.OutOrStdout(), text)
	}

	return err
}

func marshal(result any) (string, error) {
	content, err := json.Marshal(result)
	if err != nil {
		return "", fmt.Errorf("writing the result: %w", err)
	}

	return string(content), nil
}

// messageFor returns the error or the result as a termination message. A result that is too long loses its details, so that it remains JSON.
func messageFor(result any, text string, err error) string {
	if err != nil {
		message := err.Error()

		return strings.ToValidUTF8(message[:min(len(message), maxMessageBytes)], "")
	}
	short, canShorten := result.(shortener)
	for canShorten && len(text) > maxMessageBytes && short.Shorten() {
		if text, err = marshal(short); err != nil {
			return err.Error()
		}
	}
	if len(text) > maxMessageBytes {
		return fmt.Sprintf(`{"omitted":"the result has %d bytes: read the log of the container"}`, len(text))
	}

	return text
}

// writeMessage writes into the existing file of the kubelet, which the user of the container cannot replace.
func writeMessage(path, message string) error {
	if err := os.WriteFile(path, []byte(message), 0o600); err != nil {
		return fmt.Errorf("writing the termination message: %w", err)
	}

	return nil
}

// markRequired marks flags that the command has defined.
func markRequired(command *cobra.Command, names ...string) {
	for _, name := range names {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
}
