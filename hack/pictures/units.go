// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// scale is a unit, and the number of smaller units that it contains.
type scale struct {
	size float64
	name string
}

var (
	durations = []scale{{1e-6, " µs"}, {1e-3, " ms"}, {1, " s"}, {60, " min"}, {3600, " hour"}, {86400, " day"}, {604800, " week"}, {31536000, " year"}}
	sizes     = []scale{{1, " B"}, {1 << 10, " KiB"}, {1 << 20, " MiB"}, {1 << 30, " GiB"}}
	counts    = []scale{{1, ""}, {1e3, " K"}, {1e6, " Mil"}}
)

// format returns a value with its unit, like Grafana does.
func format(value float64, unit string) string {
	if math.IsNaN(value) {
		return "-"
	}

	switch unit {
	case "s":
		return scaled(value, durations)
	case "bytes":
		return scaled(value, sizes)
	case "percentunit":
		return decimals(value*100) + "%"
	case "ops":
		return scaled(value, counts) + " ops/s"
	case "reqps":
		return scaled(value, counts) + " req/s"
	case "short":
		return scaled(value, counts)
	case "", "none":
		return decimals(value)
	default:
		return decimals(value) + " " + unit
	}
}

// scaled returns a value in the largest unit that is not larger than the value.
func scaled(value float64, scales []scale) string {
	if value == 0 {
		for _, scale := range scales {
			if scale.size == 1 {
				return "0" + scale.name
			}
		}
	}

	unit := scales[0]
	for _, scale := range scales {
		if math.Abs(value) >= scale.size {
			unit = scale
		}
	}

	return decimals(value/unit.size) + unit.name
}

// decimals returns a number with three significant digits.
func decimals(value float64) string {
	digits := 0
	if absolute := math.Abs(value); absolute != 0 && absolute < 100 {
		digits = min(2-int(math.Floor(math.Log10(absolute))), 4)
	}

	text := strconv.FormatFloat(value, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}

	return text
}

// ticks returns round numbers from zero, or from the minimum, to at least the maximum.
func ticks(minimum, maximum float64, unit string, n int) []float64 {
	if maximum <= minimum {
		maximum = minimum + 1
	}

	step := niceStep((maximum-minimum)/float64(n), unit)

	var result []float64
	for at := math.Floor(minimum/step) * step; ; at += step {
		result = append(result, at)

		if at >= maximum {
			return result
		}
	}
}

// niceStep returns a round number that is not smaller than the minimum.
func niceStep(minimum float64, unit string) float64 {
	base := 1.0
	if unit == "bytes" {
		base = math.Pow(1024, math.Floor(math.Log(minimum)/math.Log(1024)))
		minimum /= base
	}

	magnitude := math.Pow(10, math.Floor(math.Log10(minimum)))

	for _, factor := range []float64{1, 2, 2.5, 5, 10} {
		if factor*magnitude >= minimum {
			return factor * magnitude * base
		}
	}

	panic(fmt.Sprintf("no step for %v", minimum))
}
