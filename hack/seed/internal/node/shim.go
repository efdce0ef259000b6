// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shimSockets returns the sockets of the node's containerd shims, which are outside the node's directory.
func shimSockets(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "containerd-state", "io.containerd.runtime.v2.task", "*", "*", "address"))

	var sockets []string

	for _, file := range files {
		if content, err := os.ReadFile(file); err == nil {
			sockets = append(sockets, strings.TrimPrefix(strings.TrimSpace(string(content)), "unix://"))
		}
	}

	return sockets
}

// killShims kills the shims of the containerd at the socket. They are not children of containerd and outlive it by
// design. The path of the socket identifies them, since no other containerd has it.
func killShims(socket string) error {
	for range 20 {
		pids := shims(socket)
		if len(pids) == 0 {
			return nil
		}

		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}

		time.Sleep(50 * time.Millisecond)
	}

	return fmt.Errorf("the shims of %s do not end", socket)
}

func shims(socket string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")

	var pids []int

	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || !isShim(content, socket) {
			continue
		}

		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}

	return pids
}

// isShim parses a command line from /proc, in which a zero byte follows each argument.
func isShim(commandLine []byte, socket string) bool {
	args := bytes.Split(commandLine, []byte{0})
	if !strings.HasPrefix(filepath.Base(string(args[0])), "containerd-shim") {
		return false
	}

	for i, arg := range args {
		if string(arg) == "-address" && i+1 < len(args) && string(args[i+1]) == socket {
			return true
		}
	}

	return false
}
