// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"strconv"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestV1alpha1(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "APIs Druid V1alpha1 Suite")
}

// randomSeed returns the seed of random objects. It is fixed by default, so that a test fails only if the code changes. API_SEED=random selects
// the seed of Ginkgo, which Ginkgo prints. API_SEED=NUMBER repeats such a run.
func randomSeed(fixed int64) int64 {
	GinkgoHelper()

	switch text := os.Getenv("API_SEED"); text {
	case "":
		return fixed
	case "random":
		return GinkgoRandomSeed()
	default:
		seed, err := strconv.ParseInt(text, 10, 64)
		Expect(err).NotTo(HaveOccurred())

		return seed
	}
}
