// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart tests charts/livesched with Helm's library. It is a module of its own, so that
// livesched does not depend on Helm.
//
//	kustomize_test.go  the chart has the objects of config/
//	values_test.go     what each value changes
//	schema_test.go     values.schema.json, and Helm's linter
//	lifecycle_test.go  install, upgrade, rollback and uninstall on a real API server, with
//	                   kube-controller-manager
//
// The Helm of go.mod uses the k8s.io modules that livesched uses, so that they are compiled once.
package chart
