// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history stores the specs of SchedulerProfiles and SchedulingPolicies that ran, as
// ControllerRevisions, as StatefulSets and DaemonSets do. livesched runs them after a restart if
// the current specs are invalid, and users can list them and roll back to them.
//
// The data of a ControllerRevision is a v1 List of manifests that can be applied as they are: the
// policy for the revision of a policy; for the revision of a profile, the policy that it was built
// with, followed by the profile. Values that change without a new revision are annotations, since
// the API server does not allow changes to the data of a ControllerRevision.
//
// The package does not depend on the scheduler.
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

// Labels of a ControllerRevision identify its object. All revisions of livesched have LabelKind.
const (
	LabelKind = "livesched.io/kind"
	// LabelName is the object's name as NameLabel writes it.
	LabelName = "livesched.io/name"
	LabelUID  = "livesched.io/uid"
)

// Annotations of a ControllerRevision.
const (
	// AnnotationGeneration is the latest generation of the object that had this revision.
	AnnotationGeneration = "livesched.io/generation"
	// AnnotationHash is a profile's status.active.revision when it ran, or a hash of a policy's
	// spec.
	AnnotationHash = "livesched.io/hash"
	// AnnotationPolicyUID and AnnotationPolicyGeneration identify the latest policy that the
	// profile was built with. They are absent if it was built with the built-in defaults.
	AnnotationPolicyUID        = "livesched.io/policy-uid"
	AnnotationPolicyGeneration = "livesched.io/policy-generation"
	// AnnotationPolicyRevision is the name of the policy's own ControllerRevision, which may have
	// been deleted.
	AnnotationPolicyRevision = "livesched.io/policy-revision"
	// AnnotationActiveSince is when the revision became active last, as in RFC 3339.
	AnnotationActiveSince = "livesched.io/active-since"
	// AnnotationChangedBy is the field manager of the change.
	AnnotationChangedBy = "livesched.io/changed-by"
	// AnnotationChangeCause is the reason of the change, as on the revisions of Deployments. It is
	// copied from the object.
	AnnotationChangeCause = "kubernetes.io/change-cause"
)

// Revision is a spec that ran. Once decoded it is read-only.
type Revision struct {
	// Name of the ControllerRevision.
	Name string
	// Number orders the revisions of an object: the spec that became active last has the greatest
	// one. A spec that becomes active again gets a new number.
	Number int64
	// Kind is KindProfile or KindPolicy. ObjectName and UID identify the object.
	Kind       string
	ObjectName string
	UID        types.UID
	// Generation is the latest generation of the object that had this revision.
	Generation int64
	// Hash is a profile's status.active.revision when it ran, or a hash of a policy's spec.
	Hash string
	// Created is when the ControllerRevision was created: when the spec first became active.
	Created time.Time
	// Activation describes how the spec became active last.
	Activation

	// Profile is the spec of a profile, nil in a policy's revision. It has no revisionHistoryLimit,
	// which is not part of the history.
	Profile *v1alpha1.SchedulerProfileSpec
	// Policy is the policy itself in a policy's revision. In a profile's revision it is the policy
	// that the profile was built with, nil if that was the built-in defaults.
	Policy *Policy
}

// Activation is a change that made a spec active. Fields that are not known are empty, such as all
// of them in revisions of older versions.
type Activation struct {
	// Since is when the spec became active.
	Since time.Time
	// By is the field manager of the change: of the profile or, if that has not changed, of its
	// policy.
	By string
	// Cause is the annotation AnnotationChangeCause of that object.
	Cause string
}

// Policy is a policy as a revision has it.
type Policy struct {
	Name       string
	UID        types.UID
	Generation int64
	// Revision is the name of the policy's own ControllerRevision, which may have been deleted. It
	// is empty if it is not known.
	Revision string
	// Spec has no revisionHistoryLimit.
	Spec v1alpha1.SchedulingPolicySpec
}

// pageSize is the number of ControllerRevisions in one page of a list.
const pageSize = 500

// List returns the revisions of the objects with a kind and name, by ascending number. They can
// include revisions of a deleted object of the same name, which has another UID, until the garbage
// collector deletes them: see Of. List skips revisions that cannot be decoded.
func List(ctx context.Context, reader client.Reader, namespace, kind, name string) ([]Revision, error) {
	return list(ctx, reader, namespace, client.MatchingLabels{LabelKind: kind, LabelName: NameLabel(name)}, nil)
}

// ListAll returns the revisions of all objects, by ascending number. It calls undecodable for each
// revision that cannot be decoded.
func ListAll(ctx context.Context, reader client.Reader, namespace string,
	undecodable func(*appsv1.ControllerRevision, error)) ([]Revision, error) {
	return list(ctx, reader, namespace, client.HasLabels{LabelKind}, undecodable)
}

func list(ctx context.Context, reader client.Reader, namespace string, labels client.ListOption,
	undecodable func(*appsv1.ControllerRevision, error)) ([]Revision, error) {
	var all []Revision
	page := client.ListOptions{}
	for {
		var items appsv1.ControllerRevisionList
		if err := reader.List(ctx, &items, client.InNamespace(namespace), labels, client.Limit(pageSize),
			client.Continue(page.Continue)); err != nil {
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

// Of returns the revisions of the object with a UID, in the same order.
func Of(revisions []Revision, uid types.UID) []Revision {
	return slices.DeleteFunc(slices.Clone(revisions), func(r Revision) bool { return r.UID != uid })
}

// Sort sorts revisions by number. Numbers are unique unless another client changed them. Of two
// revisions with the same number, the older comes first.
func Sort(revisions []Revision) {
	slices.SortFunc(revisions, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
}
