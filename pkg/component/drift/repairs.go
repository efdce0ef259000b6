// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// Pause is the minimum time between two repairs of one object. It limits the writes of the operator while another writer keeps
// changing the object back.
const Pause = 5 * time.Minute

// Repairs are the recorded repairs of the objects of one rendering. A new rendering is applied as a whole and starts without
// repairs. The zero value has none.
type Repairs struct {
	// Rendering is the checksum of the rendering.
	Rendering string `json:"rendering"`
	// At are the times of the last repairs by object, for example Service/main-client.
	At map[string]time.Time `json:"at"`
}

// ParseRepairs decodes the result of String for this rendering. For every other text it returns empty Repairs.
func ParseRepairs(text, rendering string) Repairs {
	repairs := Repairs{}
	if err := json.Unmarshal([]byte(text), &repairs); err != nil || repairs.Rendering != rendering {
		return Repairs{Rendering: rendering}
	}

	return repairs
}

// Last returns the time of the last repair of an object. Zero: there was none within Pause, and the object can be repaired
// now.
func (r Repairs) Last(object string, now time.Time) time.Time {
	if at := r.At[object]; !at.IsZero() && !at.After(now) && now.Sub(at) < Pause {
		return at
	}

	return time.Time{}
}

// With returns the repairs with those of additional objects, and without those that have expired.
func (r Repairs) With(now time.Time, objects ...string) Repairs {
	at := maps.Clone(r.At)
	if at == nil {
		at = map[string]time.Time{}
	}
	maps.DeleteFunc(at, func(object string, _ time.Time) bool { return r.Last(object, now).IsZero() })
	for _, object := range objects {
		at[object] = now.UTC().Truncate(time.Second)
	}

	return Repairs{Rendering: r.Rendering, At: at}
}

// Without returns the repairs without that of an object, which can then be repaired at once.
func (r Repairs) Without(object string) Repairs {
	at := maps.Clone(r.At)
	delete(at, object)

	return Repairs{Rendering: r.Rendering, At: at}
}

// String is the JSON form.
func (r Repairs) String() string {
	encoded, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("encoding %d times: %v", len(r.At), err)) // impossible for years of four digits
	}

	return string(encoded)
}
