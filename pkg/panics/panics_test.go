// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package panics_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/panics"
)

func TestPanics(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "panics Suite")
}

var _ = Describe("Recover", func() {
	call := func(do func() error) (err error) {
		defer panics.Recover(context.Background(), &err)

		return do()
	}

	It("turns a panic into an error", func() {
		Expect(call(func() error { panic("index out of range") })).To(MatchError(panics.Err))
	})

	It("keeps other results", func() {
		Expect(call(func() error { return nil })).To(Succeed())
		Expect(call(func() error { return errors.New("refused") })).To(MatchError("refused"))
	})
})
