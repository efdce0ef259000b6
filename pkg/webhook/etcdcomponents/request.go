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

// Request is a request to change or delete an object.
type Request struct {
	// User is the user who sends the request.
	User authenticationv1.UserInfo
	// Deletion is true for a deletion, false for a change.
	Deletion bool
	// Resource is the plural name of the kind, followed by a slash and the subresource if there is one: pods,
	// statefulsets/scale.
	Resource string
	// Namespace is the namespace of the object.
	Namespace string
	// Before is the object before the request. It alone decides to which Etcd the object belongs, so that a removed label
	// still protects it.
	Before Object
	// After is the object after the request. Empty for a deletion.
	After Object
}

// Object has the fields of an object of any kind that the decision depends on.
type Object struct {
	metav1.ObjectMeta `json:"metadata"`

	// Spec is the decoded spec. Nil: the kind has none.
	Spec any `json:"spec"`
	// Status is set only for the subresource scale.
	Status struct {
		// Selector selects the pods of the scaled object, in its text form.
		Selector string `json:"selector"`
	} `json:"status"`
}

// requestFrom decodes an admission request.
func requestFrom(req admissionv1.AdmissionRequest) (Request, error) {
	request := Request{
		User:      req.UserInfo,
		Deletion:  req.Operation == admissionv1.Delete,
		Resource:  strings.TrimSuffix(req.Resource.Resource+"/"+req.SubResource, "/"),
		Namespace: req.Namespace,
	}

	if err := json.Unmarshal(req.OldObject.Raw, &request.Before); err != nil {
		return Request{}, fmt.Errorf("reading the object: %w", err)
	}

	if !request.Deletion {
		if err := json.Unmarshal(req.Object.Raw, &request.After); err != nil {
			return Request{}, fmt.Errorf("reading the object as it would be: %w", err)
		}
	}

	return request, nil
}

// isPartOf is true if the object belongs to the Etcd, which is in the same namespace.
func (r Request) isPartOf(etcd *druidv1alpha1.Etcd) bool {
	own := labels.Set(r.Before.Labels)

	if r.Resource == "statefulsets/scale" {
		selected, err := labels.ConvertSelectorToLabelsMap(r.Before.Status.Selector)
		if err != nil {
			return false // the StatefulSet of the operator selects by labels only
		}

		own = selected
	}

	switch {
	case own[druidv1alpha1.LabelManagedByKey] == druidv1alpha1.LabelManagedByValue:
		return own[druidv1alpha1.LabelPartOfKey] == etcd.Name
	case own[managedresources.LabelKeyOrigin] == druidv1alpha1.ManagedResourceOrigin:
		return r.Resource == "managedresources" && r.Before.Name == helper.ManagedResourceName(etcd) || own[druidv1alpha1.LabelPartOfKey] == etcd.Name
	case own[secretsmanager.LabelKeyManagedBy] == secretsmanager.LabelValueSecretsManager:
		return own[secretsmanager.LabelKeyManagerIdentity] == secrets.Identity(etcd.Name)
	case r.Resource == "persistentvolumeclaims": // claims keep the labels with which they were created
		return isClaimOf(etcd, r.Before.Name)
	}

	return false
}

var ordinal = regexp.MustCompile(`^[0-9]+$`)

func isClaimOf(etcd *druidv1alpha1.Etcd, name string) bool {
	rest, ok := strings.CutPrefix(name, helper.VolumeClaimTemplateName(etcd)+"-"+helper.StatefulSetName(etcd)+"-")

	return ok && ordinal.MatchString(rest)
}
