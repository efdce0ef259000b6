// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package history

// Voter is what the volume of a voting member holds.
type Voter struct {
	// Position of the database.
	Position Position
	// Intact is false if the data is lost. The member can then neither vote nor lead.
	Intact bool
}

// IsCommitted is true if the voting members keep a write: an intact one holds it, and those that do not hold it are no quorum. No
// leader can then be elected without it.
func IsCommitted(write Position, voters []Voter) bool {
	holders, others := 0, 0
	for _, voter := range voters {
		switch {
		case !voter.Intact:
		case voter.Position.Contains(write):
			holders++
		default:
			others++
		}
	}

	return holders > 0 && others < len(voters)/2+1
}
