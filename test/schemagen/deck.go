// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package schemagen

import (
	"math/rand"
	"slices"
	"strings"
)

// Deck deals points to a number of objects, so that all objects together reach all of them.
type Deck struct {
	random  *rand.Rand
	all     []Point
	missing []Point
	objects int
}

// NewDeck returns a deck of points for a number of objects. The last objects are for points that earlier ones did not reach.
func NewDeck(random *rand.Rand, points []Point, objects int) *Deck {
	deck := &Deck{random: random, all: points, objects: objects - objects/5}
	deck.shuffle()

	return deck
}

func (d *Deck) shuffle() {
	d.missing = append([]Point(nil), d.all...)
	d.random.Shuffle(len(d.missing), func(i, j int) { d.missing[i], d.missing[j] = d.missing[j], d.missing[i] })
}

// Deal returns the points for the next object: at least the given number, and as many as are necessary to deal all of them. When all are dealt, it
// begins again.
func (d *Deck) Deal(least int) []Point {
	count := least
	if d.objects > 0 {
		count = max(least, (len(d.missing)+d.objects-1)/d.objects)
		d.objects--
	}
	if len(d.missing) == 0 {
		d.shuffle()
		d.objects = 0
	}
	var dealt, later []Point
	for _, point := range d.missing {
		if len(dealt) < count && !slices.ContainsFunc(dealt, func(other Point) bool { return excludes(point, other) || excludes(other, point) }) {
			dealt = append(dealt, point)
		} else {
			later = append(later, point)
		}
	}
	d.missing = later

	return dealt
}

// excludes is true if a value cannot be empty or absent because of the point of another one.
func excludes(point, other Point) bool {
	rest, isBelow := strings.CutPrefix(other.Path, point.Path)

	return isBelow && (point.Value == Zero || point.Value == Absent) && (rest == "" || strings.ContainsAny(rest[:1], ".[{"))
}

// Return records the points that the object reaches for which the points were dealt. Dealt points that it does not reach are dealt again.
func (d *Deck) Return(dealt []Point, reached map[Point]struct{}) {
	var missing []Point
	for _, point := range d.missing {
		if _, is := reached[point]; !is {
			missing = append(missing, point)
		}
	}
	for _, point := range dealt {
		if _, is := reached[point]; !is {
			missing = append(missing, point)
		}
	}
	d.missing = missing
}
