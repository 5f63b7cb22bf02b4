// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/internal/scheduler/replay/report"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// past knows what can be said about a decision.
type past struct {
	state *State
	// pods are all pods of the snapshot, and placed those that are on nodes now.
	pods   map[types.UID]*corev1.Pod
	placed map[types.UID]*corev1.Pod
	// after counts the changes that follow from the decisions that were taken back.
	after    uint64
	attempts *attempts
	// selecting are the objects that select pods, by namespace.
	selecting map[string][]selecting
	devices   sets.Set[string]
	running   map[revision]capture.Profile
}

// revision is a revision of a profile.
type revision struct{ profile, hash string }

func newPast(s *State) *past {
	p := &past{
		state: s, pods: map[types.UID]*corev1.Pod{}, placed: map[types.UID]*corev1.Pod{},
		selecting: map[string][]selecting{},
		devices:   sets.New(s.snapshot.Header.DeviceResources...), running: map[revision]capture.Profile{},
		attempts: readAttempts(s.snapshot),
	}
	for _, pod := range s.snapshot.Pods {
		p.pods[pod.UID], p.placed[pod.UID] = pod, pod
	}
	for _, pod := range s.snapshot.Pending {
		p.pods[pod.UID] = pod
	}
	for _, object := range s.snapshot.Objects {
		if selector := selectorOf(object); selector != nil {
			p.selecting[object.GetNamespace()] = append(p.selecting[object.GetNamespace()],
				selecting{selector, object.GetCreationTimestamp().Time})
		}
	}
	for _, running := range s.snapshot.Header.Profiles {
		p.running[revision{running.Name, running.Revision}] = running
	}
	return p
}

// selecting is an object that selects pods, such as a Service: plugins spread the pods of one.
type selecting struct {
	selector labels.Selector
	created  time.Time
}

// selectorOf returns the selector of an object, nil if it has none.
func selectorOf(object client.Object) labels.Selector {
	var selector *metav1.LabelSelector
	switch o := object.(type) {
	case *corev1.Service:
		selector = &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
	case *corev1.ReplicationController:
		selector = &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
	case *appsv1.ReplicaSet:
		selector = o.Spec.Selector
	case *appsv1.StatefulSet:
		selector = o.Spec.Selector
	}
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil // plugins do not use it either
	}
	return parsed
}

// takeBack takes a decision back: it returns the pod that must be taken off its node, if any. Each
// decision for a node is one change, in which the pod was assumed, and a second one if the pod is
// not there any more, or was forgotten: because it was not bound. For the pods of a group that did
// not fit, see restore.
func (p *past) takeBack(d *capture.Decision) *corev1.Pod {
	pod := p.placed[d.Pod]
	switch {
	case d.Node == "", p.attempts.unassumed.Has(d.Number):
		return nil
	case p.attempts.inVain.Has(d.Number):
		delete(p.placed, d.Pod)
		return pod
	case d.Result != decisionlog.Bound.String() && d.Result != decisionlog.Binding.String() || pod == nil:
		p.after += 2
		return nil
	}
	p.after++
	delete(p.placed, d.Pod)
	return pod
}

// since returns the number of changes since a decision, without those that its own attempt has
// made before it.
func (p *past) since(d *capture.Decision) uint64 {
	changes := p.state.snapshot.Header.Changes - d.Changes
	if p.attempts.inVain.Has(d.Number) {
		return changes
	}
	return changes - uint64(d.Placed)
}

// profile returns the profile of a decision, or the reason why it cannot be used.
func (p *past) profile(d *capture.Decision) (*resolve.Profile, report.Reason) {
	s, running := p.state, p.running[revision{d.Profile, d.Revision}]
	resolved := s.resolution.Profiles[running.SchedulerName]
	switch {
	case !running.Reproducible || resolved == nil || resolved.Name != d.Profile ||
		s.unusable[d.Profile] != nil,
		!s.snapshot.Header.Redacted && resolved.Revision != d.Revision:
		return nil, report.OtherProfile
	case len(resolved.Extenders) > 0:
		return nil, report.Extenders
	}
	return resolved, ""
}

// reason returns why a decision that has just been taken back cannot be made again, or "".
func (p *past) reason(d *capture.Decision, pod *corev1.Pod, cfg *resolve.Profile) report.Reason {
	percentage := cfg.PercentageOfNodesToScore
	switch {
	case percentage > 0 && percentage < 100 && d.Node != "" && d.Evaluated < d.Nodes:
		return report.Sampled
	case d.Nominated:
		return report.Nominated
	case d.InDomain && len(d.Domain) == 0:
		return report.InDomain
	case p.state.snapshot.Header.Redacted && p.usesDevices(pod):
		return report.NoDevices
	case p.attempts.unknown.Has(d.Number) || p.since(d) != p.after:
		return report.Changed
	}
	return ""
}

// excuse returns why a decision may differ that should be the same, or "".
func (p *past) excuse(d *capture.Decision, pod *corev1.Pod) report.Reason {
	second := d.Time.Truncate(time.Second) // as of creation timestamps
	for _, s := range p.selecting[pod.Namespace] {
		if !s.created.Before(second) && s.selector.Matches(labels.Set(pod.Labels)) {
			return report.Selected
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil ||
		podfields.UsesVolumeClaims(pod) {
		return report.Claims
	}
	return ""
}

func (p *past) usesDevices(pod *corev1.Pod) bool {
	return podfields.UsesDevices(pod, func(name corev1.ResourceName) bool { return p.devices.Has(string(name)) })
}
