// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
)

// digest returns a hash of the contents of the files, or an empty string for no files.
func digest(files []string) (string, error) {
	if len(files) == 0 {
		return "", nil
	}

	hash := sha256.New()

	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}

		_, _ = hash.Write(content)
		_, _ = hash.Write([]byte{0})
	}

	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}
