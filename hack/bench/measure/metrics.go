// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Metrics are samples in the text format of Prometheus. The key is the name with the labels, as in the text.
type Metrics map[string]float64

// ParseMetrics reads samples without time stamps.
func ParseMetrics(text io.Reader) (Metrics, error) {
	metrics := Metrics{}
	scanner := bufio.NewScanner(text)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		space := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || space < 0 {
			continue
		}
		value, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the sample %q: %w", line, err)
		}
		metrics[line[:space]] = value
	}

	return metrics, scanner.Err()
}

// Sum adds up all samples with the name.
func (m Metrics) Sum(name string) float64 {
	sum := 0.0
	for key, value := range m {
		if metric, _, _ := strings.Cut(key, "{"); metric == name {
			sum += value
		}
	}

	return sum
}
