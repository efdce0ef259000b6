// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionType names what a condition is about. The types in use are the constants ConditionType* of this package.
type ConditionType string

// ConditionStatus is the status of a condition. Only True, False and Unknown are written; the other constants are
// accepted because older clients know them.
type ConditionStatus string

const (
	// ConditionTrue means that the condition holds.
	ConditionTrue ConditionStatus = "True"
	// ConditionFalse means that the condition does not hold.
	ConditionFalse ConditionStatus = "False"
	// ConditionUnknown means that the facts needed to decide could not be had.
	ConditionUnknown ConditionStatus = "Unknown"
	// ConditionProgressing meant that a condition failed for less than its threshold. It is never written.
	//
	// Deprecated: kept so that older clients compile and older objects decode.
	ConditionProgressing ConditionStatus = "Progressing"
	// ConditionCheckError meant that the check itself failed. It is never written, see ConditionUnknown.
	//
	// Deprecated: kept so that older clients compile and older objects decode.
	ConditionCheckError ConditionStatus = "ConditionCheckError"
)

// Condition is one statement about the observed state of a resource.
type Condition struct {
	// Type is what the statement is about; at most one condition of a type exists.
	Type ConditionType `json:"type"`
	// Status is one of True, False, Unknown.
	Status ConditionStatus `json:"status"`
	// LastTransitionTime is when Status last changed its value. It does not move with Reason or Message.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// LastUpdateTime is when anything in this condition was last written. It moves only with a change of Status, Reason
	// or Message, so that an idle Etcd costs no writes.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
	// Reason is a CamelCase word for programs that says why Status is what it is.
	Reason string `json:"reason"`
	// Message is a sentence that names the object and the remedy. It contains times, never ages.
	Message string `json:"message"`
}
