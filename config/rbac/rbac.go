// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rbac has the permissions of livesched, for checks that compare them with those of a
// cluster.
package rbac

import _ "embed"

// Role is the ClusterRole "livesched".
//
//go:embed role.yaml
var Role []byte
