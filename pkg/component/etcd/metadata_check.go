// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CheckMetadata validates names, labels and annotations of objects as the API server does. A dry run does the same only for kinds
// for which the operator may request one. The error names the object and its field.
func CheckMetadata(objects ...client.Object) error {
	for _, object := range objects {
		if errs := validation.ValidateObjectMetaAccessor(object, true, nameRule(object), field.NewPath("metadata")); len(errs) > 0 {
			return fmt.Errorf("%s %s: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), errs.ToAggregate())
		}
	}

	return nil
}

func nameRule(object client.Object) validation.ValidateNameFunc {
	switch object.(type) {
	case *rbacv1.Role, *rbacv1.RoleBinding:
		return func(name string, _ bool) []string { return content.IsPathSegmentName(name) }
	default:
		return validation.NameIsDNSSubdomain
	}
}
