// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package progress_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
)

var _ = Describe("Round", func() {
	DescribeTable("formats a duration", func(d time.Duration, expected string) {
		Expect(progress.Round(d)).To(Equal(expected))
	},
		Entry("below a minute", 3240*time.Millisecond, "3.2s"),
		Entry("above a minute", 65*time.Second, "1m05s"),
	)
})

var _ = Describe("Wait", func() {
	It("prints what it waits for, and returns when nothing is missing", func(ctx SpecContext) {
		buffer := gbytes.NewBuffer()
		statuses := []string{"two pods", ""}

		Expect(progress.New(buffer).Wait(ctx, "the thing", time.Minute, func(context.Context) (string, error) {
			status := statuses[0]
			statuses = statuses[1:]

			return status, nil
		})).To(Succeed())
		Expect(buffer).To(gbytes.Say("waiting for the thing: two pods"))
	})

	It("returns the last status after the timeout", func(ctx SpecContext) {
		err := progress.New(gbytes.NewBuffer()).Wait(ctx, "the thing", time.Millisecond, func(context.Context) (string, error) { return "one pod", nil })
		Expect(err).To(MatchError("the thing was not ready within 1ms; last status: one pod"))
	})

	It("returns an error of the check immediately", func(ctx SpecContext) {
		broken := errors.New("it died")
		err := progress.New(gbytes.NewBuffer()).Wait(ctx, "the thing", time.Minute, func(context.Context) (string, error) { return "", broken })
		Expect(err).To(MatchError(broken))
	})
})
