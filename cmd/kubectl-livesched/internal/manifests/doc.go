// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads files of YAML and JSON documents and remembers where in them each object
// and each field is.
package manifests
