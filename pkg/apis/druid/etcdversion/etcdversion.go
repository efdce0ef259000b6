// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdversion compares minor versions of etcd, such as 3.5. What may not live here: images, and decisions about one cluster.
package etcdversion

import (
	"fmt"
	"slices"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// Minor versions of etcd for which the operator has images.
const (
	// V34 is etcd 3.4.
	V34 = "3.4"
	// V35 is etcd 3.5.
	V35 = "3.5"
)

// Supported returns the minor versions for which the operator has images, the oldest one first. etcd changes between adjacent ones only.
func Supported() []string { return []string{V34, V35} }

// Newest returns the newest supported minor version.
func Newest() string {
	all := Supported()

	return all[len(all)-1]
}

// IsSupported is true for a minor version in Supported.
func IsSupported(minor string) bool { return slices.Contains(Supported(), minor) }

// MinorOf returns the minor version of a version that a member reports, for example 3.5 of 3.5.27. Empty: it is no version. Members report
// arbitrary text, so that no other value of it may reach a decision.
func MinorOf(version string) string {
	parsed, err := utilversion.ParseGeneric(version)
	if err != nil {
		return ""
	}

	return fmt.Sprintf("%d.%d", parsed.Major(), parsed.Minor())
}

// The first version of etcd-wrapper that contains etcd 3.5, and the first one whose version of etcd is not known.
var (
	firstWrapperOf35    = utilversion.MustParseGeneric("v0.7.0")
	firstUnknownWrapper = utilversion.MustParseGeneric("v0.8.0")
)

// OfWrapper returns the minor version of etcd in an image of etcd-wrapper, according to its tag. Empty: the image has another name, or its tag is not
// known.
func OfWrapper(image string) string {
	name, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	tag, _, _ = strings.Cut(tag, "@")
	wrapper, err := utilversion.ParseSemantic(tag)
	switch {
	case name != "etcd-wrapper" || err != nil || wrapper.AtLeast(firstUnknownWrapper):
		return ""
	case wrapper.LessThan(firstWrapperOf35):
		return V34
	default:
		return V35
	}
}

// OrOldest returns the minor version, or V34 if it is empty: it is not known.
func OrOldest(minor string) string {
	if minor == "" {
		return V34
	}

	return minor
}

// Compare returns a negative number if a is older than b, 0 if both are the same, and a positive number if a is newer. Empty means V34. A
// value that is no version is older than all versions.
func Compare(a, b string) int {
	if OrOldest(a) == OrOldest(b) {
		return 0
	}
	x, errX := utilversion.ParseGeneric(OrOldest(a))
	y, errY := utilversion.ParseGeneric(OrOldest(b))
	switch {
	case errX != nil && errY != nil:
		return 0
	case errX != nil:
		return -1
	case errY != nil:
		return 1
	}
	order, _ := x.Compare(y.String()) // y is a version

	return order
}

// Max returns the newer of two minor versions.
func Max(a, b string) string {
	if Compare(a, b) < 0 {
		return b
	}

	return OrOldest(a)
}

// IsAdjacent is true if etcd can be upgraded or downgraded between the supported minor versions: it skips none.
func IsAdjacent(from, to string) bool {
	all := Supported()
	i, j := slices.Index(all, OrOldest(from)), slices.Index(all, OrOldest(to))

	return i >= 0 && j >= 0 && i-j >= -1 && i-j <= 1
}
