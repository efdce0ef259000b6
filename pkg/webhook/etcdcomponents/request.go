// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/gardener/gardener/pkg/utils/managedresources"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
)

// Request is an attempt to change or delete an object.
type Request struct {
	// User is who attempts it.
	User authenticationv1.UserInfo
	// Deletion is true where the object is to be deleted, false where it is to be changed.
	Deletion bool
	// Resource is the plural name of the kind, with its subresource behind a slash: pods, statefulsets/scale.
	Resource string
	// Namespace is that of the object.
	Namespace string
	// Before is the object as it is. What it is a part of is told by this alone: a label that is taken away protects still.
	Before Object
	// After is the object as it would be; empty for a deletion.
	After Object
}

// Object is what decides of an object of any kind.
type Object struct {
	metav1.ObjectMeta `json:"metadata"`

	// Spec is the decoded spec; nil where the kind has none.
	Spec any `json:"spec"`
	// Status is meaningful for the subresource scale.
	Status struct {
		// Selector selects the pods of what is scaled, in its text form.
		Selector string `json:"selector"`
	} `json:"status"`
}

// requestFrom reads what the API server asks.
func requestFrom(asked admissionv1.AdmissionRequest) (Request, error) {
	request := Request{
		User:      asked.UserInfo,
		Deletion:  asked.Operation == admissionv1.Delete,
		Resource:  strings.TrimSuffix(asked.Resource.Resource+"/"+asked.SubResource, "/"),
		Namespace: asked.Namespace,
	}

	if err := json.Unmarshal(asked.OldObject.Raw, &request.Before); err != nil {
		return Request{}, fmt.Errorf("reading the object: %w", err)
	}

	if !request.Deletion {
		if err := json.Unmarshal(asked.Object.Raw, &request.After); err != nil {
			return Request{}, fmt.Errorf("reading the object as it would be: %w", err)
		}
	}

	return request, nil
}

// originValue is the origin of our ManagedResources and their payloads.
const originValue = "gardener-extension-etcd-druid"

// isOf says whether the object is part of the Etcd, which is in the same namespace.
func (r Request) isOf(etcd *druidv1alpha1.Etcd) bool {
	own := labels.Set(r.Before.Labels)

	if r.Resource == "statefulsets/scale" {
		selected, err := labels.ConvertSelectorToLabelsMap(r.Before.Status.Selector)
		if err != nil {
			return false // ours has labels and nothing else
		}

		own = selected
	}

	switch {
	case own[druidv1alpha1.LabelManagedByKey] == druidv1alpha1.LabelManagedByValue:
		return own[druidv1alpha1.LabelPartOfKey] == etcd.Name
	case own[managedresources.LabelKeyOrigin] == originValue:
		return r.Resource == "managedresources" && r.Before.Name == helper.ManagedResourceName(etcd) || own[druidv1alpha1.LabelPartOfKey] == etcd.Name
	case own[secretsmanager.LabelKeyManagedBy] == secretsmanager.LabelValueSecretsManager:
		return own[secretsmanager.LabelKeyManagerIdentity] == secrets.Identity(etcd.Name)
	case r.Resource == "persistentvolumeclaims": // claims keep the labels of the day on which they were made
		return isClaimOf(etcd, r.Before.Name)
	}

	return false
}

var ordinal = regexp.MustCompile(`^[0-9]+$`)

func isClaimOf(etcd *druidv1alpha1.Etcd, name string) bool {
	rest, ok := strings.CutPrefix(name, helper.VolumeClaimTemplateName(etcd)+"-"+helper.StatefulSetName(etcd)+"-")

	return ok && ordinal.MatchString(rest)
}
