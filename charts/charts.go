// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package charts holds the Helm chart of the operator. Charts of etcd clusters do not live here: Go code builds their
// objects.
package charts

import "embed"

// Operator is the folder of the operator's chart, which Path names within it.
//
//go:embed all:gardener-extension-etcd-druid
var Operator embed.FS

// Path is where the chart's folder begins in Operator.
const Path = "gardener-extension-etcd-druid"
