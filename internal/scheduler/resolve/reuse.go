// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/livesched/livesched/api/v1alpha1"
)

// sameSpec reports whether two specs are equal. Those of one UID and metadata.generation may
// differ: if etcd is restored, an object counts its generations again. Those of one
// metadata.resourceVersion do not, which is the case for nearly all objects, and costs less to find
// out.
func sameSpec[T any](before string, a *T, now string, b *T) bool {
	return before != "" && before == now || apiequality.Semantic.DeepEqual(a, b)
}

// lastPolicy returns the policy that the last resolution resolved the object to, if it would be the
// same again: the spec and the Secrets that it names have not changed, and it was valid. Otherwise
// it returns nil.
func (r *resolver) lastPolicy(object *v1alpha1.SchedulingPolicy) *policy {
	if r.input.Last == nil {
		return nil
	}
	last := r.input.Last.resolver.policies[object.Name]
	if last == nil || !last.result.Accepted || last.good.UID != object.UID ||
		last.good.Generation != object.Generation ||
		!sameSpec(last.version, &last.good.Spec, object.ResourceVersion, &object.Spec) {
		return nil
	}
	if !maps.EqualFunc(last.good.Secrets, secretsOf(&object.Spec, r.input.Secrets), Secret.Equal) {
		return nil
	}
	again := *last
	again.result.Profiles, again.version = nil, object.ResourceVersion
	return &again
}

// lastCandidate returns the candidate that the last resolution made of the object, if it would be
// the same again: neither the spec nor the policy has changed, and it was valid. Otherwise it
// returns nil.
func (r *resolver) lastCandidate(object *v1alpha1.SchedulerProfile, p *policy) *candidate {
	if r.input.Last == nil {
		return nil
	}
	last := r.input.Last.resolver.candidates[object.Name]
	if last == nil || last.current == nil || last.object.UID != object.UID ||
		last.object.Generation != object.Generation ||
		!sameSpec(last.object.ResourceVersion, &last.object.Spec, object.ResourceVersion, &object.Spec) {
		return nil
	}
	if last.policy.base != p.base || last.policy.good != p.good {
		return nil
	}
	again := *last
	again.object = object
	return &again
}
