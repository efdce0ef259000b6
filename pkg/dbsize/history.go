// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package dbsize

import (
	"math"
	"time"
)

const (
	// bucket is the period of which one size is kept: the smallest one. kube-apiserver compacts every five minutes, so that this is the size of the
	// keys with little history.
	bucket = 10 * time.Minute
	// maxBuckets is the number of buckets that are kept: one day.
	maxBuckets = 144
	// minBuckets is the number of buckets that a prediction needs: one hour.
	minBuckets = 6
	// longest is the longest prediction.
	longest = 365 * 24 * time.Hour
)

// History has the sizes of the keys in the databases of one Etcd during the last day. The zero value is empty. It is not safe for concurrent use.
type History struct {
	sizes []size
}

// size is the smallest size in a bucket.
type size struct {
	begin time.Time
	bytes int64
}

// Add adds a size in bytes that was observed at a time, which is not before the last one. 0 bytes are no observation.
func (h *History) Add(now time.Time, bytes int64) {
	if bytes == 0 {
		return
	}
	if last := len(h.sizes) - 1; last >= 0 && now.Sub(h.sizes[last].begin) < bucket {
		h.sizes[last].bytes = min(h.sizes[last].bytes, bytes)

		return
	}
	h.sizes = append(h.sizes, size{begin: now, bytes: bytes})
	if len(h.sizes) > maxBuckets {
		h.sizes = h.sizes[len(h.sizes)-maxBuckets:]
	}
}

// QuotaReachedIn returns the time after the last observation until the keys need the quota in bytes, if they continue to increase as in the history. 0:
// the history is too short, or the keys need the quota in more than a year or never. It is at least a second.
func (h *History) QuotaReachedIn(quota int64) time.Duration {
	if len(h.sizes) < minBuckets {
		return 0
	}
	perSecond, last := h.fit()
	if perSecond <= 0 {
		return 0
	}
	seconds := (float64(quota) - last) / perSecond
	if seconds > longest.Seconds() {
		return 0
	}

	return max(time.Second, time.Duration(math.Round(seconds))*time.Second)
}

// fit returns the line with the least squares: its slope, and its value at the last observation.
func (h *History) fit() (perSecond, last float64) {
	origin := h.sizes[0].begin
	var meanX, meanY, products, squares float64
	for _, s := range h.sizes {
		meanX += s.begin.Sub(origin).Seconds() / float64(len(h.sizes))
		meanY += float64(s.bytes) / float64(len(h.sizes))
	}
	for _, s := range h.sizes {
		x := s.begin.Sub(origin).Seconds() - meanX
		products += x * (float64(s.bytes) - meanY)
		squares += x * x
	}
	perSecond = products / squares

	return perSecond, meanY + perSecond*(h.sizes[len(h.sizes)-1].begin.Sub(origin).Seconds()-meanX)
}
