// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package print writes API objects as text for people: explanations, simulations and replays. It
// needs no cluster.
package print
