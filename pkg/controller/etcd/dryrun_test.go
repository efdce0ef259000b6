// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
)

var _ = DescribeTable("A Job that no quota, policy or webhook could allow is one with an invalid field", func(err error, expected bool) {
	Expect(etcd.IsInvalidField(err)).To(Equal(expected))
},
	Entry("an invalid field", apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "x", field.ErrorList{field.Required(field.NewPath("spec"), "")}), true),
	Entry("a policy that denies it", apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "x", nil), false),
	Entry("a webhook that denies it", apierrors.NewBadRequest("admission webhook denied the request"), false),
	Entry("a quota", apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "x", nil), false),
	Entry("no error", nil, false),
)
