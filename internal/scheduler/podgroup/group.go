// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Label is the label of pods whose value is the name of their PodGroup, in the same namespace.
const Label = "scheduling.x-k8s.io/pod-group"

// Gate is the name under which the queue holds pods whose group is not complete, as if it was a
// PreEnqueue plugin.
const Gate = "PodGroup"

// TopologyGate is the name under which the pods of a group are refused if it fits in no domain of
// the label that it requires, as if it was a Filter plugin. Changes of this label on a node
// retry them.
const TopologyGate = "PodGroupTopology"

// Resource is the resource of the PodGroup objects of scheduler-plugins.
var Resource = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// Kind is their kind.
var Kind = Resource.GroupVersion().WithKind("PodGroup")

// Source is the API that a group belongs to.
type Source uint8

const (
	// SchedulerPlugins is the custom resource PodGroup of the project scheduler-plugins.
	SchedulerPlugins Source = iota
	// Kubernetes is the PodGroup of Kubernetes' own API group scheduling.k8s.io.
	Kubernetes
	// Composite is the CompositePodGroup of the same API group: a group of groups. No pod names
	// one.
	Composite

	sources
)

// Key identifies a group. The zero Key stands for no group.
type Key struct {
	// Source tells groups with one name in one namespace apart.
	Source          Source
	Namespace, Name string
}

// KeyOf returns the key of the group that a pod names, or the zero Key. A pod that names one of
// each source belongs to the one of Kubernetes.
func KeyOf(pod *corev1.Pod) Key {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return Key{Source: Kubernetes, Namespace: pod.Namespace, Name: *group.PodGroupName}
	}
	if name := pod.Labels[Label]; name != "" {
		return Key{Source: SchedulerPlugins, Namespace: pod.Namespace, Name: name}
	}
	return Key{}
}

// String returns namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// WithKind returns namespace/name behind the kind of the group in words.
func (k Key) WithKind() string {
	if k.Source == Composite {
		return "composite pod group " + k.String()
	}
	return "pod group " + k.String()
}

// Group is a group of pods, as its object describes it.
type Group struct {
	Key
	// APIVersion is the one of the object, if it is known.
	APIVersion string
	// MinMember is the number of pods that must get a node together, at least 1.
	MinMember int
	// OneByOne means that the pods are scheduled one by one, as pods without a group are, once the
	// group has an object. MinMember is 1 then.
	OneByOne bool
	// Succeeded is the number of pods that have ended successfully, according to the status. They
	// count towards MinMember: a pod that replaces a failed one needs no company of pods that have
	// done their work. It is 0 once there are enough of them: what comes then is another run.
	Succeeded int
	// Begun means that all pods that are needed had a node at one time, according to the status.
	Begun bool
	// Timeout is how long the pods that have a node wait for the others to be ready to be bound,
	// for their volumes for example. 0: as long as the plugins allow.
	Timeout time.Duration
	// Priority is the priority of the group. nil: its pods have their own.
	Priority *int32
	// PreemptionPolicy is whether the group may preempt pods of a lower priority. nil: it is not
	// set. Only with the feature gate PodGroupPreemptionPolicy does it count.
	PreemptionPolicy *corev1.PreemptionPolicy
	// EvictedWhole means that preemption evicts all pods of this group, or none.
	EvictedWhole bool
	// EvictedWith is the outermost composite group that is evicted as a whole, with this group in
	// it; the zero Key if there is none. Only Victims sets it.
	EvictedWith Key
	// Topology is how near to each other the pods have to be.
	Topology Topology
	// Claims are the ResourceClaims that the pods share.
	Claims Claims
	// Parent is the name of the composite group that the group belongs to, "" if there is none.
	Parent string
	// Problem is why the object cannot be used, "" if it can.
	Problem string
}

// changesVictims reports whether pods of the group are evicted in another way than pods without a
// group. It is false for nil.
func (g *Group) changesVictims() bool { return g != nil && (g.EvictedWhole || g.Source == Kubernetes) }

// AnnotationDisruptionMode is the annotation of PodGroups for how preemption evicts their pods:
// "Pod", the default, one by one; "PodGroup" all of them. The values are the ones of the field
// disruptionMode of Kubernetes' own PodGroups in v1alpha2.
const AnnotationDisruptionMode = "livesched.io/disruption-mode"

func evictedWhole(annotations map[string]string) (bool, error) {
	switch mode := annotations[AnnotationDisruptionMode]; mode {
	case "", "Pod":
		return false, nil
	case "PodGroup":
		return true, nil
	default:
		return false, fmt.Errorf("annotation %s: %q is neither Pod nor PodGroup", AnnotationDisruptionMode, mode)
	}
}

// Object is the part of a PodGroup of scheduler-plugins that is read.
type Object struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              ObjectSpec   `json:"spec"`
	Status            ObjectStatus `json:"status"`
}

// ObjectSpec is the part of the spec that is read.
type ObjectSpec struct {
	MinMember              int32  `json:"minMember,omitempty"`
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// ObjectStatus is the part of the status that is read.
type ObjectStatus struct {
	Succeeded int32 `json:"succeeded,omitempty"`
}

// ReadObject reads a PodGroup of scheduler-plugins.
func ReadObject(u *unstructured.Unstructured) (*Object, error) {
	var o Object
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o); err != nil {
		return nil, fmt.Errorf("reading PodGroup %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return &o, nil
}

// FromObject reads a PodGroup of scheduler-plugins.
func FromObject(u *unstructured.Unstructured) (Group, error) {
	o, err := ReadObject(u)
	if err != nil {
		return Group{}, err
	}
	return o.Group(), nil
}

// Group returns the group that a PodGroup describes. Its schema has no lower bound of minMember:
// less than 1 means 1.
func (o *Object) Group() (g Group) {
	g = Group{
		Key:       Key{Namespace: o.Namespace, Name: o.Name},
		MinMember: max(1, int(o.Spec.MinMember)),
		Succeeded: max(0, int(o.Status.Succeeded)),
	}
	g.Begun = g.Succeeded > 0
	if g.Succeeded >= g.MinMember {
		g.Succeeded = 0
	}
	var err error
	if g.Topology, err = topologyOf(o.Annotations); err != nil {
		g.Problem = err.Error()
	}
	if g.EvictedWhole, err = evictedWhole(o.Annotations); err != nil {
		g.Problem = err.Error()
	}
	if seconds := o.Spec.ScheduleTimeoutSeconds; seconds != nil && *seconds > 0 {
		g.Timeout = time.Duration(*seconds) * time.Second
	}
	return g
}
