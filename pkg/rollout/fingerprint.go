// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Fingerprint identifies the defaults with which the pods of an Etcd are rendered. It begins with the names and tags of the images. Images that the spec
// names, and defaults that change no pod, are not part of it. The version of the operator is not either.
func Fingerprint(spec druidv1alpha1.EtcdSpec, accepted state.Accepted) string {
	images := accepted.Defaults.ImagesOf(accepted.EtcdVersion)
	used := struct {
		Images      []string
		EtcdVersion string
		IPFamilies  []corev1.IPFamily
	}{EtcdVersion: etcdversion.OrOldest(accepted.EtcdVersion), IPFamilies: accepted.Defaults.IPFamilies}
	if spec.Etcd.Image == nil {
		used.Images = append(used.Images, images.EtcdWrapper)
	}
	if spec.Backup.Image == nil {
		used.Images = append(used.Images, images.BackupRestore)
	}
	if store := spec.Backup.Store; store != nil && strings.EqualFold(string(ptr.Deref(store.Provider, "")), "local") {
		used.Images = append(used.Images, images.Init)
	}
	data, err := json.Marshal(used)
	if err != nil {
		panic(err) // strings
	}
	sum := sha256.Sum256(data)
	var names []string
	for _, image := range used.Images {
		names = append(names, shortName(image))
	}

	return strings.Join(names, ",") + "@" + hex.EncodeToString(sum[:4])
}

// shortName is the last part of the repository of an image, with its tag, or with the first digits of its digest.
func shortName(image string) string {
	const digits = 8
	name := image[strings.LastIndex(image, "/")+1:]
	if repository, digest, found := strings.Cut(name, "@sha256:"); found {
		if strings.Contains(repository, ":") {
			return repository
		}

		return repository + ":" + digest[:min(digits, len(digest))]
	}

	return name
}

// Describe returns the images of a fingerprint.
func Describe(fingerprint string) string {
	images, _, _ := strings.Cut(fingerprint, "@")

	return strings.ReplaceAll(images, ",", " and ")
}
