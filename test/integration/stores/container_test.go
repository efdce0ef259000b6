// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stores_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// machine runs containers as processes. Each absolute path in their arguments and environment is below a temporary directory. A real root
// directory would need privileges.
type machine struct {
	root string
	// secrets are the contents of the Secrets by name.
	secrets map[string]map[string]string
	// environment is added to each process.
	environment []string
}

// command returns the process of the container, with its volumes mounted.
func (m machine) command(ctx context.Context, pod corev1.PodSpec, container corev1.Container) *exec.Cmd {
	GinkgoHelper()
	m.mount(pod, container)

	var args []string
	for _, arg := range container.Args {
		if name, value, isFlag := strings.Cut(arg, "="); isFlag {
			arg = name + "=" + m.path(value)
		}
		args = append(args, arg)
	}
	command := exec.CommandContext(ctx, program, args...) // #nosec G204 -- the program under test
	command.Dir, command.Env = m.root, m.environment
	for _, variable := range container.Env {
		command.Env = append(command.Env, variable.Name+"="+m.path(m.value(variable)))
	}

	return command
}

// path returns the path on this machine of an absolute path in a container. It returns other values unchanged.
func (m machine) path(value string) string {
	if filepath.IsAbs(value) {
		return filepath.Join(m.root, value)
	}

	return value
}

func (m machine) value(variable corev1.EnvVar) string {
	GinkgoHelper()
	switch from := variable.ValueFrom; {
	case from == nil:
		return variable.Value
	case from.SecretKeyRef != nil:
		Expect(m.secrets).To(HaveKeyWithValue(from.SecretKeyRef.Name, HaveKey(from.SecretKeyRef.Key)))

		return m.secrets[from.SecretKeyRef.Name][from.SecretKeyRef.Key]
	default:
		return "test-0" // a field of the pod
	}
}

// mount creates the directories of the mounts, with the contents of Secrets.
func (m machine) mount(pod corev1.PodSpec, container corev1.Container) {
	GinkgoHelper()
	volumes := map[string]corev1.Volume{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = volume
	}
	for _, mount := range container.VolumeMounts {
		directory := m.path(mount.MountPath)
		Expect(os.MkdirAll(directory, 0o700)).To(Succeed())
		source := volumes[mount.Name].Secret
		if source == nil {
			continue
		}
		Expect(m.secrets).To(HaveKey(source.SecretName))
		if _, err := os.Lstat(filepath.Join(directory, "..data")); err == nil {
			continue // another container has mounted it
		}
		// The kubelet writes the files like this.
		Expect(os.Mkdir(filepath.Join(directory, "..2026_01_01_00_00_00.1"), 0o700)).To(Succeed())
		Expect(os.Symlink("..2026_01_01_00_00_00.1", filepath.Join(directory, "..data"))).To(Succeed())
		for key, value := range m.secrets[source.SecretName] {
			Expect(os.WriteFile(filepath.Join(directory, "..data", key), []byte(value), 0o600)).To(Succeed())
			Expect(os.Symlink(filepath.Join("..data", key), filepath.Join(directory, key))).To(Succeed())
		}
	}
}
