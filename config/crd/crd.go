// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd holds the custom resource definitions, for checks that are made without a cluster.
package crd

import "embed"

// Bases has the generated definitions, one file for each kind.
//
//go:embed bases/*.yaml
var Bases embed.FS
