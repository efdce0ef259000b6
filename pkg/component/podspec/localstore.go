// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

// localStoreScript prepares folders of Local stores. Its first argument is the mount table. Three arguments follow for each folder:
// the mount path, the name of the folder on the node, and its owner. The owner is user:group, or "-" if the script must not change
// it.
//
//   - The container sees the target of a symbolic link on the node, not the link. The mount table shows it: the source of the mount
//     has another last segment than the folder. A folder that is a file system of its own has the source "/". The script therefore does
//     not detect a link to the root of a file system, nor a link to a folder of the same name.
//   - It checks and changes the working directory, which stays the same folder even if something on the node replaces the path.
//   - It never changes what is in the folder.
const localStoreScript = `set -eu
refuse() { echo "$1" >&2; exit 1; }
table=$1
shift
while [ $# -gt 2 ]; do
  dir=$1 name=$2 owner=$3 source=
  shift 3
  while read -r _ _ _ from to _; do
    if [ "$to" = "$dir" ]; then source=$from; fi
  done <"$table"
  case $source in
  "") refuse "$dir is not a mount: cannot tell which folder of the node it is" ;;
  / | */"$name") ;;
  *) refuse "the folder $name of the Local store is a symbolic link to $source on this node: replace the link by a folder" ;;
  esac
  [ "$owner" != - ] || continue
  cd "$dir"
  uid=$(ls -nd . | { read -r _ _ uid _; echo "$uid"; })
  [ "$uid" != "${owner%%:*}" ] || continue
  for entry in * .*; do
    case $entry in . | ..) continue ;; esac
    if [ -e "$entry" ] || [ -L "$entry" ]; then
      refuse "the folder $name of the Local store belongs to user $uid and is not empty: choose another container, or run 'chown $owner' on it on this node if its content is to become that of the Etcd"
    fi
  done
  chown "$owner" .
done
`

// LocalFolder is the folder of a node that a container mounts for a Local store.
type LocalFolder struct {
	// Mount is the mount of the folder in the container.
	Mount corev1.VolumeMount
	// Name is the last segment of the path on the node.
	Name string
	// ChangeOwner changes the owner of an empty folder to NonRootOwner. False: the owner stays.
	ChangeOwner bool
}

// LocalStoreContainer is the init container that prepares the folders of Local stores on the node. It never changes the
// content of a folder. It fails in two cases, with the reason as termination message:
//
//   - A folder is a symbolic link.
//   - ChangeOwner is set, and the folder belongs to another user and is not empty.
func LocalStoreContainer(image string, pullPolicy corev1.PullPolicy, folders ...LocalFolder) corev1.Container {
	container := corev1.Container{
		Name:                     "change-backup-bucket-permissions",
		Image:                    image,
		ImagePullPolicy:          pullPolicy,
		Command:                  []string{"sh", "-c", localStoreScript, "sh", "/proc/self/mountinfo"},
		SecurityContext:          WithCapabilities(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	for _, folder := range folders {
		owner := "-"
		if folder.ChangeOwner {
			owner = NonRootOwner
			container.SecurityContext = asOwnerChanger()
		}
		container.Command = append(container.Command, folder.Mount.MountPath, folder.Name, owner)
		container.VolumeMounts = append(container.VolumeMounts, folder.Mount)
	}

	return container
}

// asOwnerChanger is the security context of a container that changes owners, which requires root.
func asOwnerChanger() *corev1.SecurityContext {
	security := WithCapabilities("CHOWN", "DAC_OVERRIDE")
	security.RunAsNonRoot = new(false)
	security.RunAsUser = new(int64(0))
	security.RunAsGroup = new(int64(0))

	return security
}
