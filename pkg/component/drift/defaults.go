// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"reflect"
	"slices"
)

// defaults are the values that the API server sets for fields that a rendering omits, by the name of the field. If a default
// is missing here, each change of such an object costs a dry run.
var defaults = map[string][]any{
	"apiVersion":                    {"v1"},
	"dnsPolicy":                     {"ClusterFirst"},
	"defaultMode":                   {int64(0o644)},
	"expirationSeconds":             {int64(3600)},
	"failureThreshold":              {int64(3)},
	"internalTrafficPolicy":         {"Cluster"},
	"periodSeconds":                 {int64(10)},
	"podManagementPolicy":           {"OrderedReady"},
	"protocol":                      {"TCP"},
	"restartPolicy":                 {"Always"},
	"revisionHistoryLimit":          {int64(10)},
	"schedulerName":                 {"default-scheduler"},
	"scheme":                        {"HTTP"},
	"sessionAffinity":               {"None"},
	"successThreshold":              {int64(1)},
	"terminationGracePeriodSeconds": {int64(30)},
	"terminationMessagePath":        {"/dev/termination-log"},
	"terminationMessagePolicy":      {"File"},
	"timeoutSeconds":                {int64(1)},
	"whenDeleted":                   {"Retain"},
	"whenScaled":                    {"Retain"},
}

// assigned are the fields of a Service that the API server sets.
var assigned = []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"}

// isDefault is true for a field that the rendering omits and whose value the API server sets. rendered are the fields of the
// same object.
func isDefault(key string, value any, rendered map[string]any) bool {
	if isEmpty(value) || slices.Contains(assigned, key) {
		return true
	}
	if fields, is := value.(map[string]any); is {
		for key, value := range fields {
			if !isDefault(key, value, nil) {
				return false
			}
		}
		return true
	}
	if key == "serviceAccount" { // the deprecated name of the field next to it
		return value == rendered["serviceAccountName"]
	}

	return slices.ContainsFunc(defaults[key], func(known any) bool { return reflect.DeepEqual(known, value) })
}
