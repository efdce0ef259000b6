// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// MissingMetrics applies the function MissingMetrics to the metrics of the operator's pods. It returns an error if one of the pods
// cannot be scraped.
func (o *Operator) MissingMetrics(ctx context.Context, source string) ([]string, error) {
	GinkgoHelper()

	pods, err := o.pods(ctx)
	if err != nil {
		return nil, err
	}

	var text strings.Builder

	for _, pod := range pods {
		metrics, err := o.scrape(ctx, &pod, "8080", "http", nil)
		if err != nil {
			return nil, err
		}

		text.WriteString(metrics)
	}

	return MissingMetrics(source, text.String()), nil
}

// MemberMetrics returns the metrics of etcd in the first member.
func (ns *TestNamespace) MemberMetrics(ctx context.Context, etcd *druidv1alpha1.Etcd) string {
	GinkgoHelper()

	config, err := ns.Connection(ctx, etcd)
	Expect(err).NotTo(HaveOccurred())

	scheme := "https"
	if config == nil {
		scheme = "http"
	}

	metrics, err := ns.scrape(ctx, ns.Pod(ctx, etcd), "2379", scheme, config)
	Expect(err).NotTo(HaveOccurred())

	return metrics
}

func (f *Framework) scrape(ctx context.Context, pod *corev1.Pod, port, scheme string, config *tls.Config) (string, error) {
	url := fmt.Sprintf("%s://%s/metrics", scheme, net.JoinHostPort(pod.Status.PodIP, port))

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}

	transport := &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return f.dialPod(ctx, pod, port) }}
	defer transport.CloseIdleConnections()

	response, err := (&http.Client{Transport: transport, Timeout: requestTimeout}).Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()

	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s returned %s", url, response.Status)
	}

	body, err := io.ReadAll(response.Body)

	return string(body), err
}

var (
	// series matches a line of the metrics: the name of the series, and its labels if there are any.
	series = regexp.MustCompile(`(?m)^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$`)
	label  = regexp.MustCompile(`([a-zA-Z_]\w*)="`)
)

// MissingMetrics returns the series of the source that alerts and dashboards read and that are missing, or that lack a label. The file
// metrics.json lists the series by source. The tests of the alerts and dashboards verify that it is complete.
func MissingMetrics(source, metrics string) []string {
	GinkgoHelper()

	content, err := os.ReadFile(filepath.Join("..", "rules", "metrics.json"))
	Expect(err).NotTo(HaveOccurred())

	var sources map[string]map[string][]string
	Expect(json.Unmarshal(content, &sources)).To(Succeed())
	Expect(sources[source]).NotTo(BeEmpty(), source)

	found := map[string]map[string]bool{}

	for _, match := range series.FindAllStringSubmatch(metrics, -1) {
		if found[match[1]] == nil {
			found[match[1]] = map[string]bool{}
		}

		for _, name := range label.FindAllStringSubmatch(match[2], -1) {
			found[match[1]][name[1]] = true
		}
	}

	var missing []string

	for name, labels := range sources[source] {
		if found[name] == nil {
			missing = append(missing, name)
		}

		for _, label := range labels {
			if found[name] != nil && !found[name][label] {
				missing = append(missing, name+" with label "+label)
			}
		}
	}

	return missing
}
