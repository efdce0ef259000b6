// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import "time"

// clockTolerance is the largest difference between the clocks of two operators that changes nothing.
const clockTolerance = time.Minute

// BeforeNow returns the record of an operator whose clock was ahead with the time now in place of later ones. It concerns the procedures that wait for
// a time to pass while members leave, or more vote than the spec requests. They would otherwise wait until the clock reaches the recorded time. The planner records the
// corrected procedures.
func (s State) BeforeNow(now time.Time) State {
	s.ScaleIn = beforeNow(s.ScaleIn, now, func(r *ScaleIn) []*time.Time { return []*time.Time{&r.Since, &r.ReadyAt} })
	s.Surge = beforeNow(s.Surge, now, func(r *Surge) []*time.Time { return []*time.Time{&r.Since, &r.ReadyAt} })
	s.Migration = beforeNow(s.Migration, now, func(r *Migration) []*time.Time { return []*time.Time{&r.Since, &r.ReadyAt} })

	return s
}

func beforeNow[T any](record *T, now time.Time, times func(*T) []*time.Time) *T {
	if record == nil {
		return nil
	}
	corrected := *record
	for _, t := range times(&corrected) {
		if t.After(now.Add(clockTolerance)) {
			*t = now.UTC().Round(0)
		}
	}

	return &corrected
}
