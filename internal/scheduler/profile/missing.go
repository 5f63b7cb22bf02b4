// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"
)

// MissingKinds returns the kinds that the plugins of the instance use and the API server does not
// serve, sorted. The plugins find no objects of these kinds until the API server serves them: see
// informers.Source.Probe.
func (i *Instance) MissingKinds() []schema.GroupVersionKind {
	registered := resources(i.Queue.Hints)
	missing := append(i.scope.Missing(), i.handle.env.EventSources.Missing(registered)...)
	// What plugins share is read through the scope of the Environment, such as claims and devices.
	// They register for changes of what they read.
	for _, kind := range i.handle.env.Scope.Missing() {
		if slices.ContainsFunc(registered, func(r fwk.EventResource) bool { return isResource(kind, r) }) {
			missing = append(missing, kind)
		}
	}
	slices.SortFunc(missing, func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(missing)
}

// isResource reports whether a plugin that registers for a resource of Kubernetes, such as
// "resource.k8s.io/ResourceClaim", means a kind.
func isResource(kind schema.GroupVersionKind, r fwk.EventResource) bool {
	group, name, qualified := strings.Cut(string(r), "/")
	if !qualified {
		group, name = "", string(r)
	}
	return kind.Group == group && kind.Kind == name
}
