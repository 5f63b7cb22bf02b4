// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Claims are the ResourceClaims that the pods of a group share, as the PodGroup of Kubernetes says.
// They are read-only.
type Claims struct {
	// UID is the one of the PodGroup, for which claims are reserved.
	UID types.UID
	// Wanted are the claims and templates that the spec names, and Made those that were made from
	// the templates, by the status.
	Wanted []schedulingv1beta1.PodGroupResourceClaim
	Made   []schedulingv1beta1.PodGroupResourceClaimStatus
}

func claimsOf(o *schedulingv1beta1.PodGroup) Claims {
	return Claims{UID: o.UID, Wanted: o.Spec.ResourceClaims, Made: o.Status.ResourceClaimStatuses}
}

// Object returns a PodGroup of Kubernetes with the fields that ResourceClaims depend on.
func (g *Group) Object() *schedulingv1beta1.PodGroup {
	o := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: g.Namespace, Name: g.Name, UID: g.Claims.UID}}
	o.Spec.ResourceClaims, o.Status.ResourceClaimStatuses = g.Claims.Wanted, g.Claims.Made
	return o
}

// Lister offers the PodGroups of Kubernetes to the plugin for devices. It shows the present, and
// like the Registry it may be used from any goroutine.
type Lister struct{ Registry *Registry }

// Get returns the PodGroup as Group.Object does.
func (l Lister) Get(namespace, name string) (*schedulingv1beta1.PodGroup, error) {
	group, _, err := l.Registry.find(namespace, name)
	if err != nil {
		return nil, err
	}
	return group.Object(), nil
}

// StateLister counts the pods of PodGroups of Kubernetes for the plugin for devices. Like the
// Registry it may be used from any goroutine.
type StateLister struct{ Registry *Registry }

// Get returns a state that knows only ScheduledPodsCount: what the plugin asks for.
func (l StateLister) Get(namespace, name string) (fwk.PodGroupState, error) {
	_, placed, err := l.Registry.find(namespace, name)
	if err != nil {
		return nil, err
	}
	return placedPods{placed: placed}, nil
}

// placedPods is the number of pods of a group that have a node. It has no other methods of the
// interface.
type placedPods struct {
	fwk.PodGroupState
	placed int
}

func (p placedPods) ScheduledPodsCount() int { return p.placed }

// find returns a group of Kubernetes, and how many of its pods have a node. The error is for users.
func (r *Registry) find(namespace, name string) (group Group, placed int, err error) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if s := r.groups[Key{Source: Kubernetes, Namespace: namespace, Name: name}]; s != nil && s.group != nil {
			return *s.group, len(s.placed), nil
		}
	}
	return Group{}, 0, fmt.Errorf("pod group %s/%s does not exist", namespace, name)
}
