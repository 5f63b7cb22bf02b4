// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/livesched/livesched/api/v1alpha1"
)

// manifests is the data of a ControllerRevision.
type manifests struct {
	metav1.TypeMeta `json:",inline"`
	Items           []json.RawMessage `json:"items"`
}

// manifest is an object as a user would apply it.
type manifest[Spec any] struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec Spec `json:"spec"`
}

func newManifest[Spec any](kind, name string, spec Spec) ([]byte, error) {
	m := manifest[Spec]{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}, Spec: spec}
	m.Metadata.Name = name
	return json.Marshal(m)
}

// Encode returns the ControllerRevision of a revision, owned by its object. A revision without a
// name gets one.
func Encode(r *Revision, namespace string) (*appsv1.ControllerRevision, error) {
	list := manifests{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	var errs []error
	add := func(text []byte, err error) {
		list.Items, errs = append(list.Items, text), append(errs, err)
	}
	if r.Policy != nil {
		spec := r.Policy.Spec.DeepCopy()
		spec.RevisionHistoryLimit = nil
		add(newManifest(KindPolicy, r.Policy.Name, spec))
	}
	if r.Profile != nil {
		spec := r.Profile.DeepCopy()
		spec.RevisionHistoryLimit = nil
		add(newManifest(KindProfile, r.ObjectName, spec))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("encoding the revision of %s %q: %w", r.Kind, r.ObjectName, err)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encoding the revision of %s %q: %w", r.Kind, r.ObjectName, err)
	}
	name := r.Name
	if name == "" {
		text, err := content(r)
		if err != nil {
			return nil, fmt.Errorf("encoding the revision of %s %q: %w", r.Kind, r.ObjectName, err)
		}
		name = revisionName(r.Kind, r.ObjectName, r.UID, text, 0)
	}
	controller := true
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      name,
			Labels: map[string]string{LabelKind: r.Kind, LabelName: NameLabel(r.ObjectName),
				LabelUID: string(r.UID)},
			Annotations: annotations(r),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: r.Kind, Name: r.ObjectName, UID: r.UID,
				Controller: &controller,
			}},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: r.Number,
	}, nil
}

// annotations returns the fields of a revision that may change, apart from its number, as
// annotations.
func annotations(r *Revision) map[string]string {
	all := map[string]string{AnnotationGeneration: strconv.FormatInt(r.Generation, 10), AnnotationHash: r.Hash}
	if r.Profile != nil && r.Policy != nil {
		all[AnnotationPolicyUID] = string(r.Policy.UID)
		all[AnnotationPolicyGeneration] = strconv.FormatInt(r.Policy.Generation, 10)
		if r.Policy.Revision != "" {
			all[AnnotationPolicyRevision] = r.Policy.Revision
		}
	}
	since := ""
	if !r.Since.IsZero() {
		since = r.Since.UTC().Format(time.RFC3339)
	}
	for i, value := range []string{since, r.By, r.Cause} {
		if value != "" {
			all[activationAnnotations[i]] = value
		}
	}
	return all
}

// activationAnnotations are the annotations of an Activation, in the order of its fields.
var activationAnnotations = [...]string{AnnotationActiveSince, AnnotationChangedBy, AnnotationChangeCause}

// activationOf reads the Activation of a ControllerRevision. A time that cannot be read is not
// known.
func activationOf(object *appsv1.ControllerRevision) Activation {
	since, err := time.Parse(time.RFC3339, object.Annotations[AnnotationActiveSince])
	if err != nil {
		since = time.Time{}
	}
	return Activation{Since: since, By: object.Annotations[AnnotationChangedBy],
		Cause: object.Annotations[AnnotationChangeCause]}
}

// Decode reads a ControllerRevision. It is strict: a field that this version does not know is an
// error, since the spec would behave differently without it.
func Decode(object *appsv1.ControllerRevision) (*Revision, error) {
	r := &Revision{
		Name: object.Name, Number: object.Revision, Kind: object.Labels[LabelKind],
		UID:  types.UID(object.Labels[LabelUID]),
		Hash: object.Annotations[AnnotationHash], Created: object.CreationTimestamp.Time,
		Activation: activationOf(object),
	}
	if err := r.decode(object); err != nil {
		return nil, fmt.Errorf("decoding ControllerRevision %q: %w", object.Name, err)
	}
	return r, nil
}

func (r *Revision) decode(object *appsv1.ControllerRevision) error {
	if r.UID == "" {
		return fmt.Errorf("it has no label %s", LabelUID)
	}
	generation, err := parseGeneration(object, AnnotationGeneration)
	if err != nil {
		return err
	}
	r.Generation = generation
	var list manifests
	if err := strictly(object.Data.Raw, &list); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	for i, item := range list.Items {
		if err := r.decodeItem(object, item); err != nil {
			return fmt.Errorf("data.items[%d]: %w", i, err)
		}
	}
	switch {
	case r.Kind == KindPolicy && r.Policy != nil && r.Profile == nil:
		r.ObjectName = r.Policy.Name
		r.Policy.UID, r.Policy.Generation, r.Policy.Revision = r.UID, r.Generation, r.Name
	case r.Kind == KindProfile && r.Profile != nil:
	default:
		return fmt.Errorf("data: there is no manifest of the %s, or an extra one", r.Kind)
	}
	if NameLabel(r.ObjectName) != object.Labels[LabelName] {
		return fmt.Errorf("data: is of %q, unlike label %s=%s", r.ObjectName, LabelName, object.Labels[LabelName])
	}
	return nil
}

func (r *Revision) decodeItem(object *appsv1.ControllerRevision, item json.RawMessage) error {
	var what metav1.TypeMeta
	if err := json.Unmarshal(item, &what); err != nil {
		return err
	}
	switch {
	case what.APIVersion != v1alpha1.GroupVersion.String():
		return fmt.Errorf("unknown apiVersion %q", what.APIVersion)
	case what.Kind == KindProfile && r.Profile == nil:
		var m manifest[v1alpha1.SchedulerProfileSpec]
		if err := strictly(item, &m); err != nil {
			return err
		}
		r.ObjectName, r.Profile = m.Metadata.Name, &m.Spec
	case what.Kind == KindPolicy && r.Policy == nil:
		var m manifest[v1alpha1.SchedulingPolicySpec]
		if err := strictly(item, &m); err != nil {
			return err
		}
		r.Policy = &Policy{Name: m.Metadata.Name, Spec: m.Spec}
		if r.Kind == KindPolicy {
			return nil
		}
		generation, err := parseGeneration(object, AnnotationPolicyGeneration)
		if err != nil {
			return err
		}
		r.Policy.Generation = generation
		r.Policy.UID = types.UID(object.Annotations[AnnotationPolicyUID])
		r.Policy.Revision = object.Annotations[AnnotationPolicyRevision]
	default:
		return fmt.Errorf("unexpected kind %q", what.Kind)
	}
	return nil
}

func parseGeneration(object *appsv1.ControllerRevision, annotation string) (int64, error) {
	generation, err := strconv.ParseInt(object.Annotations[annotation], 10, 64)
	if err != nil || generation < 1 {
		return 0, fmt.Errorf("annotation %s=%q: must be a number from 1", annotation, object.Annotations[annotation])
	}
	return generation, nil
}

// strictly decodes JSON. Unknown and duplicate fields are errors, and names are case-sensitive.
func strictly(text []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(text, into)
	return errors.Join(append(strict, err)...)
}
