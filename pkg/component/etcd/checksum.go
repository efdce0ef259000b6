// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// configMembers is the number of members from which an additional member does not change the running ones. A sidecar reads
// from the configuration only whether its member is alone. It finds the other members in the member list.
const configMembers = 3

// configChecksum is the checksum of a configuration, in the format of etcd-druid, without the members beyond configMembers. A
// different checksum makes pods outdated, and neither additional nor removed members are a reason to restart them.
func configChecksum(v Values) (string, error) {
	var further []Member
	v.Members, v.Remaining, v.Withdrawn = v.PodMembers, 0, nil
	if !v.MembersByAddress && len(v.Members) > configMembers {
		v.Members, further = v.Members[:configMembers], v.Members[configMembers:]
	}
	configMap, err := configMap(v)
	if err != nil {
		return "", err
	}
	for _, member := range further {
		if len(member.AdditionalPeerURLs) > 0 {
			configMap.Data[member.Name] = strings.Join(member.AdditionalPeerURLs, ",")
		}
	}

	return checksum(configMap.Data)
}

// annotateTemplate sets an annotation of the StatefulSet to the checksum of its pod template.
func annotateTemplate(statefulSet *appsv1.StatefulSet) error {
	template, err := checksum(statefulSet.Spec.Template)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&statefulSet.ObjectMeta, etcdcluster.TemplateAnnotation, template)

	return nil
}

// annotateRendering sets an annotation of the StatefulSet to the checksum of all objects without this annotation.
func annotateRendering(statefulSet *appsv1.StatefulSet, objects []client.Object) error {
	rendering, err := checksum(objects)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&statefulSet.ObjectMeta, etcdcluster.RenderingAnnotation, rendering)

	return nil
}

// checksum is the SHA-256 of the JSON form, in hex.
func checksum(value any) (string, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding %T for its checksum: %w", value, err)
	}
	sum := sha256.Sum256(encoded)

	return hex.EncodeToString(sum[:]), nil
}
