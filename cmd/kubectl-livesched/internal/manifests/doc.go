// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads YAML and JSON files and keeps the line of each object and field.
package manifests
