// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history keeps the specs of SchedulerProfiles and SchedulingPolicies that ran, as
// ControllerRevisions, the way StatefulSets and DaemonSets keep theirs: to go on with after a
// restart, and for people to look at and to go back to.
//
// The data of a ControllerRevision is a v1 List of manifests that can be applied as they are: of a
// policy's the policy, of a profile's the profile after the policy that it was built on. What
// changes without a new revision is in annotations, since the API server lets nobody change the
// data of a ControllerRevision.
//
// Nothing here depends on the scheduler.
package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

// The kinds of objects that have a history.
const (
	KindProfile = "SchedulerProfile"
	KindPolicy  = "SchedulingPolicy"
)

// Labels of a ControllerRevision: the object that it is of. All revisions of livesched have
// LabelKind.
const (
	LabelKind = "livesched.io/kind"
	// LabelName has the object's name as NameLabel writes it.
	LabelName = "livesched.io/name"
	LabelUID  = "livesched.io/uid"
)

// Annotations of a ControllerRevision.
const (
	// AnnotationGeneration is the latest generation of the object that was this revision.
	AnnotationGeneration = "livesched.io/generation"
	// AnnotationHash is, of a profile's, what status.active.revision was when it ran; of a
	// policy's, a hash of its spec.
	AnnotationHash = "livesched.io/hash"
	// The latest policy that was what the profile was built on. Absent where the built-in defaults
	// stood in for one.
	AnnotationPolicyUID        = "livesched.io/policy-uid"
	AnnotationPolicyGeneration = "livesched.io/policy-generation"
	// AnnotationPolicyRevision is the name of the policy's own ControllerRevision. It may be gone
	// by now.
	AnnotationPolicyRevision = "livesched.io/policy-revision"
)

// Revision is a spec that ran. Read-only once it was decoded.
type Revision struct {
	// Name of the ControllerRevision.
	Name string
	// Number orders the revisions of an object: the greatest is the one that was taken up last. A
	// spec that is taken up again gets a new number.
	Number int64
	// Kind is KindProfile or KindPolicy. ObjectName and UID are those of the object.
	Kind       string
	ObjectName string
	UID        types.UID
	// Generation is the latest generation of the object that was this revision.
	Generation int64
	// Hash is, of a profile's, what status.active.revision was when it ran; of a policy's, a hash
	// of its spec.
	Hash string
	// Created is when the spec was taken up for the first time, of those that are still kept.
	Created time.Time

	// Profile is the spec of a profile, nil in a policy's revision. It has no revisionHistoryLimit:
	// that is about the history, not part of it.
	Profile *v1alpha1.SchedulerProfileSpec
	// Policy is, in a policy's revision, the policy itself, and in a profile's the one that it was
	// built on: nil where the built-in defaults stood in for the policy "default".
	Policy *Policy
}

// Policy is a policy as it was in a revision.
type Policy struct {
	Name       string
	UID        types.UID
	Generation int64
	// Revision is the name of the policy's own ControllerRevision, which may be gone by now. Empty
	// if it is not known.
	Revision string
	// Spec has no revisionHistoryLimit.
	Spec v1alpha1.SchedulingPolicySpec
}

// pageSize is how many ControllerRevisions are listed at a time.
const pageSize = 500

// List returns the revisions of the objects of a kind and name, by ascending number. An object that
// was deleted and created again has another UID than the revisions of the one before, which the
// garbage collector may not have deleted yet: see Of. What cannot be decoded is left out.
func List(ctx context.Context, reader client.Reader, namespace, kind, name string) ([]Revision, error) {
	return list(ctx, reader, namespace, client.MatchingLabels{LabelKind: kind, LabelName: NameLabel(name)}, nil)
}

// ListAll returns the revisions of all objects, by ascending number. It calls undecodable with
// those that cannot be decoded.
func ListAll(ctx context.Context, reader client.Reader, namespace string, undecodable func(*appsv1.ControllerRevision, error)) ([]Revision, error) {
	return list(ctx, reader, namespace, client.HasLabels{LabelKind}, undecodable)
}

func list(ctx context.Context, reader client.Reader, namespace string, labels client.ListOption, undecodable func(*appsv1.ControllerRevision, error)) ([]Revision, error) {
	var all []Revision
	page := client.ListOptions{}
	for {
		var items appsv1.ControllerRevisionList
		if err := reader.List(ctx, &items, client.InNamespace(namespace), labels, client.Limit(pageSize), client.Continue(page.Continue)); err != nil {
			return nil, fmt.Errorf("listing ControllerRevisions in namespace %q: %w", namespace, err)
		}
		for i := range items.Items {
			revision, err := Decode(&items.Items[i])
			if err == nil {
				all = append(all, *revision)
			} else if undecodable != nil {
				undecodable(&items.Items[i], err)
			}
		}
		if page.Continue = items.Continue; page.Continue == "" {
			Sort(all)
			return all, nil
		}
	}
}

// Of returns the revisions of the object with a UID, in the order in which they are.
func Of(revisions []Revision, uid types.UID) []Revision {
	var of []Revision
	for _, r := range revisions {
		if r.UID == uid {
			of = append(of, r)
		}
	}
	return of
}

// Sort sorts revisions by number. Numbers are unique unless somebody else has had a hand in it:
// then age decides.
func Sort(revisions []Revision) {
	slices.SortFunc(revisions, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
}
