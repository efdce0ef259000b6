// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package randomspec

import (
	"math/rand"
	"slices"
	"strconv"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/test/schemagen"
)

// formats are the formats of texts and numbers in the specs of all kinds, by the end of their path.
var formats = slices.Concat(kubernetesFormats, []schemagen.Format{
	{Path: "Schedule", Text: schedule},
	{Path: ".memberNamePrefix", Text: label},
	{Path: ".memberName", Text: func(_ *rand.Rand, length int) string { return fill("main", length-2, "n") + "-0" }},
	{Path: ".members[].name", Text: func(_ *rand.Rand, length int) string { return fill("0source", length, "s") }}, // no member that joins has such a name
	{Path: ".volumeClaimTemplate", Text: label},
	{Path: ".storageClass", Text: subdomain},
	{Path: ".priorityClassName", Text: subdomain},
	{Path: ".externallyManagedMemberAddresses[]", Text: address},
	{Path: ".urls[]", Text: url("http://")},
	{Path: ".peerUrls[]", Text: url("http://")},
	{Path: ".clientEndpoints[]", Text: url("http://")},
	{Path: ".endpointOverride", Text: url("https://")},
	{Path: ".container", Text: container},
	{Path: ".storageContainer", Text: container},
	{Path: ".provider", Text: anyOf("S3", "aws", "azure", "gcp", "openstack", "alicloud", "dell", "openshift", "Local", "local")},
	{Path: ".storageProvider", Text: anyOf("S3", "GCS", "ABS", "Local")},
	{Path: ".snapstoreTempDir", Text: func(random *rand.Rand, length int) string {
		return fill("/var/etcd/data/"+anyOf("tmp", "a b", "ü", "$(POD_NAME)", "{{x}}", "\tdir")(random, 0), length, "d")
	}},
	{Path: ".autoCompactionRetention", Text: retention},
	{Path: ".image", Text: image},
	{Path: ".imageRepository", Text: image},
	{Path: ".imageVersion", Text: anyOf("v1", "3.4.34", "sha256:"+strings.Repeat("0a", 32), "v1@sha256:"+strings.Repeat("0a", 32))},
	{Path: ".dataKey", Text: anyOf("ca.crt", "bundle.crt", "_", "A-b.c_d", strings.Repeat("k", 253))},
	{Path: ".namespace", Text: label},
	{Path: ".name", Text: subdomain},
	{Path: "Secret", Text: subdomain},
	{Path: ".etcdName", Text: label},
	{Path: ".time", Text: anyOf("2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2026-01-01T00:00:00.5+02:00")},
})

// kubernetesFormats are the formats in types of Kubernetes, which have no limits in a schema.
var kubernetesFormats = []schemagen.Format{
	{Path: ".limits{key}", Text: anyOf("cpu", "memory", "ephemeral-storage")},
	{Path: ".requests{key}", Text: anyOf("cpu", "memory", "ephemeral-storage")},
	{Path: "abels{key}", Text: labelKey},
	{Path: "nnotations{key}", Text: labelKey},
	{Path: "abels{}", Text: labelValue},
	{Path: ".matchFields[].key", Text: anyOf("metadata.name")},
	{Path: ".matchFields[].operator", Text: anyOf("In", "NotIn")},
	{Path: ".matchExpressions[].operator", Text: anyOf("In", "NotIn", "Exists", "DoesNotExist")},
	{Path: ".tolerations[].operator", Text: anyOf("Exists", "Equal")},
	{Path: ".key", Text: labelKey},
	{Path: ".values[]", Text: labelValue},
	{Path: ".tolerations[].value", Text: labelValue},
	{Path: ".effect", Text: anyOf("NoSchedule", "PreferNoSchedule", "NoExecute")},
	{Path: ".topologyKey", Text: labelKey},
	{Path: ".whenUnsatisfiable", Text: anyOf("DoNotSchedule", "ScheduleAnyway")},
	{Path: ".nodeAffinityPolicy", Text: anyOf("Honor", "Ignore")},
	{Path: ".nodeTaintsPolicy", Text: anyOf("Honor", "Ignore")},
	{Path: "abelKeys[]", Text: labelKey},
	{Path: ".namespaces[]", Text: label},
	{Path: ".weight", Number: func(random *rand.Rand) int64 { return []int64{1, 50, 100}[random.Intn(3)] }},
	{Path: ".maxSkew", Number: func(random *rand.Rand) int64 { return []int64{1, 2147483647}[random.Intn(2)] }},
	{Path: ".minDomains", Number: func(random *rand.Rand) int64 { return []int64{1, 2147483647}[random.Intn(2)] }},
	{Path: ".tolerationSeconds", Number: func(random *rand.Rand) int64 { return []int64{-1, 0, 300, 9223372036854775807}[random.Intn(4)] }},
}

// anyOf returns a format with some texts. Each of them can be the first part of a longer one.
func anyOf(texts ...string) schemagen.Text {
	return func(random *rand.Rand, length int) string { return fill(texts[random.Intn(len(texts))], length, "x") }
}

// fill appends a character to an ASCII text, or truncates the text, until it has the length. 0 or less: the text stays as it is.
func fill(text string, length int, character string) string {
	switch {
	case length <= 0:
		return text
	case length < len(text):
		return text[:length]
	default:
		return text + strings.Repeat(character, length-len([]rune(text)))
	}
}

func label(random *rand.Rand, length int) string {
	return fill([]string{"a", "a1", "main", "a-b", "etcd-main-1"}[random.Intn(5)], length, "l")
}

func subdomain(random *rand.Rand, length int) string {
	if length == 0 {
		length = []int{1, 5, 20, 63, 64, 253}[random.Intn(6)]
	}

	return fill("s", length, "d")
}

func labelKey(random *rand.Rand, length int) string {
	return fill([]string{
		"a", "app", "A_b.c-d", "example.com/key", strings.Repeat("p", 253) + "/" + strings.Repeat("k", 63), "networking.gardener.cloud/to-dns",
		"kubernetes.io/hostname", strings.Repeat("k", 63),
	}[random.Intn(8)], length, "k")
}

func labelValue(random *rand.Rand, length int) string {
	return fill([]string{"", "a", "A_b.c-d", "true", "1", "0x1", "null", "1e3", strings.Repeat("v", 63)}[random.Intn(9)], length, "v")
}

func schedule(random *rand.Rand, length int) string {
	text := []string{
		"0 0 * * *", "*/30 * * * *", "59 23 31 12 6", "0,15,30-45/5 1-5 1-31 1-12 1-5", "0 0 29 2 *", "0  0\t1 1 0", "0 0 31 * *",
	}[random.Intn(7)]

	return strings.Replace(text, " ", strings.Repeat(" ", max(length-len(text), 0)+1), 1)
}

func container(random *rand.Rand, length int) string {
	return fill([]string{"abc", "A.b_c-d1", "my-bucket"}[random.Intn(3)], length, "c")
}

func address(random *rand.Rand, length int) string {
	if length > 0 {
		return subdomain(random, length)
	}

	return []string{"10.0.0.", "host-"}[random.Intn(2)] + strconv.Itoa(random.Intn(256))
}

func url(scheme string) schemagen.Text {
	return func(random *rand.Rand, length int) string {
		host := []string{"10.0.0.1", "a.example.com", "[fd00::1]", "localhost"}[random.Intn(4)]
		port := []string{"", ":2379", ":1", ":65535"}[random.Intn(4)]

		return fill(scheme+host+port+"/"+anyOf("a", "b", "c", "d", "e", "f", "g", "h")(random, 0), length, "p")
	}
}

func image(random *rand.Rand, length int) string {
	if random.Intn(5) == 0 {
		return schemagen.AnyText(random, length)
	}

	return fill([]string{"registry.example.com/etcd:v1", "etcd", "localhost:5000/a/b@sha256:" + strings.Repeat("0a", 32)}[random.Intn(3)], length, "i")
}

func retention(random *rand.Rand, length int) string {
	text := []string{"1", "24", "30"}[random.Intn(3)]

	return strings.Repeat("0", max(length-len(text), 0)) + text
}
