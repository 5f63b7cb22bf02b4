// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capture writes what decisions depend on to a file, and reads it again: nodes, pods and
// the other objects that plugins read, profiles and policies, and the latest decisions. With such a
// file, decisions can be made again without the cluster.
//
//	Input --record--> Record --redact--> Record --JSON, gzip--> file --Read--> Snapshot
//
// A file is gzip of JSON, one Record on each line: first the Header, last the End.
//
//	format.go    the records
//	objects.go   the fields of objects that decisions depend on (of pods and nodes, those in package
//	             podfields); nothing else is in a file
//	groups.go    the same for PodGroups
//	write.go     Write: the Input to a stream
//	read.go      Read: a file to a Snapshot, with limits, since the file may come from anywhere
//	pseudonyms.go Redact: a Snapshot to a redacted file, with what the pseudonyms stand for
//	redact.go    pseudonyms instead of the strings of users
//	names.go     which pseudonym a string has
//	numbers.go   the integers that are compared, which have no pseudonym
//	words.go     the strings of Kubernetes, plugins and livesched, which are kept
package capture
