// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"cmp"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// Registry knows the groups of the cluster, and which of their pods have a node. A nil Registry
// knows of no groups: all pods are scheduled one by one.
//
// Informer handlers, the scheduling loop, binding goroutines and the queue call it concurrently.
// Its mutex is the innermost: the Registry calls no other code with it, and the queue calls the
// Registry with its own lock held.
type Registry struct {
	mu sync.Mutex // guards the rest, but is not held while served and listed are called
	// served report whether the API server serves the PodGroups of each source. nil: it does not.
	// listed report whether these have been listed. nil: they have.
	served, listed [sources]func() bool
	// groups has the groups that have an object or pods with a node.
	groups map[Key]*state
	// required counts the groups that require a topology, by the label.
	required map[string]int
	// counted has the group that each pod with a node counts in. The pod may name another one by
	// now.
	counted map[types.UID]Key
	// victims changes whenever the result of Victims does. Only the holder of mu changes it.
	victims atomic.Uint64
	// forest has the composite groups.
	forest forest
}

// state is what is known about one group.
type state struct {
	// group is nil while there is no object.
	group *Group
	// placed are the pods that have a node.
	placed map[types.UID]placement
	// unconfirmed is how many of placed are only assumed.
	unconfirmed int
	// enough means that at one time this run of it had all pods that it needs, as far as assumed
	// ones get their nodes. complete means that they got them: a group whose pods were not bound
	// has never been complete. owners are the controllers of the pods of the run that have had a
	// node.
	enough, complete bool
	owners           sets.Set[types.UID]
	// excused is how many pods it needs fewer; see Excuse.
	excused int
}

// missing returns how many pods a group lacks that has an object. It may be negative.
func (s *state) missing() int {
	return s.group.MinMember - s.group.Succeeded - len(s.placed) - s.excused
}

// needed is Needed for a group that has an object.
func (s *state) needed() int { return max(1, s.missing()) }

// note notes what follows from a change of the group or of its pods.
func (s *state) note() {
	switch {
	case s.group != nil && s.group.MinMember-s.group.Succeeded <= len(s.placed):
		s.enough, s.excused = true, 0
	case len(s.placed) == 0:
		s.excused = 0
	}
	s.complete = s.complete || s.enough && s.unconfirmed == 0
}

// begin notes that another run of the group begins, or that it needs more pods than before.
func (s *state) begin(complete bool) { s.enough, s.complete = complete, complete }

// placement is where a pod is, and how it got there.
type placement struct {
	node string
	from source // both bits may be set
}

type source uint8

const (
	// assumed: the scheduling loop has placed the pod, together with enough others.
	assumed source = 1 << iota
	// assigned: the API server has confirmed the node.
	assigned
)

// only returns 1 if a placement comes from that source alone, 0 otherwise.
func only(from, alone source) int {
	if from == alone {
		return 1
	}
	return 0
}

// NewRegistry returns a Registry without groups.
func NewRegistry() *Registry {
	return &Registry{groups: map[Key]*state{}, required: map[string]int{}, counted: map[types.UID]Key{},
		forest: newForest()}
}

// SetServed sets the functions that report whether the API server serves the PodGroups of a source,
// and whether these have been listed. Until it serves them, the label or field that names one has
// no meaning, and the Registry applies to no pod with it. The functions must not block. If listed
// is nil, they have been listed.
func (r *Registry) SetServed(source Source, served, listed func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.served[source], r.listed[source] = served, listed
}

// SetGroup records the newest version of a group. It reports whether the pods may be placed in
// other ways than before, or with fewer others: a new group may have been deleted and created
// again.
func (r *Registry) SetGroup(g Group) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stateLocked(g.Key)
	changed = s.group == nil || s.group.Problem != g.Problem || !s.group.Topology.equal(&g.Topology) ||
		!ptr.Equal(s.group.Priority, g.Priority) || g.MinMember < s.group.MinMember || g.OneByOne != s.group.OneByOne
	if s.group == nil {
		s.begin(g.Begun)
	} else if g.MinMember > s.group.MinMember {
		s.begin(false) // the new minimum is for all of its pods
		s.excused = 0
	}
	before := ""
	if s.group != nil {
		before = s.group.Parent
	}
	changed = changed || before != g.Parent
	r.requireLocked(s.group, -1)
	r.victimsChangeLocked(s.group, &g)
	s.group = &g
	r.requireLocked(s.group, 1)
	if before != "" || g.Parent != "" {
		r.forest.setParent(g.Key, before, g.Parent)
	}
	s.note()
	return changed
}

// DeleteGroup records that the object of a group is gone.
func (r *Registry) DeleteGroup(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.groups[key]; s != nil {
		r.requireLocked(s.group, -1)
		r.victimsChangeLocked(s.group, nil)
		if s.group != nil && s.group.Parent != "" {
			r.forest.setParent(key, s.group.Parent, "")
		}
		s.group, s.excused = nil, 0
		s.begin(false)
		s.owners.Clear()
		r.tidyLocked(key, s)
	}
}

// SetAssumed records that the scheduling loop has placed a pod of a group, whose node is set.
func (r *Registry) SetAssumed(pod *corev1.Pod) { r.set(pod, assumed) }

// SetAssigned records that a pod has a node, according to the API server. It returns the group, the
// zero Key if there is none or the Registry knew it already.
func (r *Registry) SetAssigned(pod *corev1.Pod) Key { return r.set(pod, assigned) }

func (r *Registry) set(pod *corev1.Pod, from source) Key {
	if r == nil {
		return Key{}
	}
	key := KeyOf(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, counts := r.counted[pod.UID]; counts && was != key {
		r.unsetLocked(pod.UID, assumed|assigned) // its label has changed
	}
	if key == (Key{}) {
		return Key{}
	}
	r.counted[pod.UID] = key
	s := r.stateLocked(key)
	before := s.placed[pod.UID].from
	owner := ownerOf(pod)
	if len(s.placed) == 0 && s.owners.Len() > 0 && !s.owners.Has(owner) {
		s.begin(false)
		s.owners.Clear()
	}
	s.placed[pod.UID] = placement{node: pod.Spec.NodeName, from: before | from}
	s.unconfirmed += only(before|from, assumed) - only(before, assumed)
	s.owners.Insert(owner)
	s.note()
	if before != 0 {
		return Key{}
	}
	return key
}

// OwnerOf returns what pods that share their fate have in common: their group or the tree that it
// belongs to, or else their controller. A pod without either is by itself. r may be nil.
func (r *Registry) OwnerOf(pod *corev1.Pod) string {
	if key := KeyOf(pod); r != nil && key != (Key{}) {
		return "group/" + r.Unit(key).String()
	}
	return string(cmp.Or(ownerOf(pod), pod.UID))
}

// ownerOf returns the UID of the controller of a pod, "" if it has none.
func ownerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return ""
}

// Undo records that a pod that the loop had placed was not bound. A pod that the API server has
// confirmed in the meantime stays.
func (r *Registry) Undo(pod *corev1.Pod) { r.unset(pod.UID, assumed) }

// Forget records that a pod is gone, or has ended, or does not count in its group any more. It
// returns the group that the pod has counted in, the zero Key if there is none.
func (r *Registry) Forget(pod *corev1.Pod) Key { return r.unset(pod.UID, assumed|assigned) }

func (r *Registry) unset(uid types.UID, from source) Key {
	if r == nil {
		return Key{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unsetLocked(uid, from)
}

func (r *Registry) unsetLocked(uid types.UID, from source) Key {
	key, counts := r.counted[uid]
	if !counts {
		return Key{}
	}
	s := r.groups[key]
	p := s.placed[uid]
	before := p.from
	p.from &^= from
	s.unconfirmed += only(p.from, assumed) - only(before, assumed)
	if p.from != 0 {
		s.placed[uid] = p
		return Key{}
	}
	delete(r.counted, uid)
	delete(s.placed, uid)
	if before == assumed {
		s.enough = s.complete // as far as is known, it got no node
	}
	s.note()
	r.tidyLocked(key, s)
	return key
}

// Excuse lets a group that was complete at one time do with the pods that it has: ready more are to
// get a node together. The others may have succeeded, and will not come again: the status does not
// count succeeded pods of Kubernetes' groups, nor pods that have been deleted since. It reports
// whether anything has changed. pods are those that are ready: pods of a new owner belong to
// another run, which begins with all of them.
//
// It holds until the group is complete again, or has no pod with a node.
func (r *Registry) Excuse(key Key, ready int, pods iter.Seq[*corev1.Pod]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.groups[key]
	if s == nil || s.group == nil || !s.complete || ready == 0 || s.needed() <= ready {
		return false
	}
	for pod := range pods {
		if s.owners.Len() > 0 && !s.owners.Has(ownerOf(pod)) {
			return false
		}
	}
	s.excused += s.needed() - ready
	return true
}

// Applies reports whether pods that name a group wait for it: the API server serves PodGroups of
// its source.
func (r *Registry) Applies(key Key) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	served := r.served[key.Source]
	r.mu.Unlock()
	return served != nil && served()
}

// Listed reports whether the PodGroups of the source of a group have been listed. Before, a group
// without an object may have one.
func (r *Registry) Listed(key Key) bool {
	r.mu.Lock()
	listed := r.listed[key.Source]
	r.mu.Unlock()
	return listed == nil || listed()
}

// OneByOne reports whether a group has an object by which its pods are scheduled one by one.
func (r *Registry) OneByOne(key Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.groups[key]
	return s != nil && s.group != nil && s.group.OneByOne
}

// Needed returns how many pods of a group must get a node together: what its MinMember leaves when
// the pods that have a node, have succeeded or are excused are taken off, and at least 1. known is
// false if the group has no object.
func (r *Registry) Needed(key Key) (needed int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.groups[key]
	if s == nil || s.group == nil {
		return 0, false
	}
	return s.needed(), true
}

// Placed returns how many pods of a group have a node, and how many it lacks. Both are 0 if the
// group has no object. A group for which neither is 0 is half placed.
func (r *Registry) Placed(key Key) (placed, missing int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.groups[key]; s != nil && s.group != nil {
		return len(s.placed), max(0, s.missing())
	}
	return 0, 0
}

// Get returns a group and, if it has a topology, the nodes of its pods that have one. Other groups
// do not need them: to collect thousands takes as long as to place tens of pods. known is false if
// the group has no object.
func (r *Registry) Get(key Key) (group Group, nodes sets.Set[string], known bool) {
	if r == nil {
		return Group{Key: key}, nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.groups[key]
	if s == nil || s.group == nil {
		return Group{Key: key}, nil, false
	}
	if s.group.Topology.Required != "" || len(s.group.Topology.Preferred) > 0 {
		nodes = sets.New[string]()
		for _, p := range s.placed {
			nodes.Insert(p.node)
		}
	}
	return *s.group, nodes, true
}

// requireLocked counts the label that a group requires. group may be nil.
func (r *Registry) requireLocked(group *Group, by int) {
	if group != nil {
		r.requireTopologyLocked(group.Topology.Required, by)
	}
}

// requireTopologyLocked counts a label that a group or a composite group requires, if it is not "".
func (r *Registry) requireTopologyLocked(label string, by int) {
	if label == "" {
		return
	}
	if r.required[label] += by; r.required[label] == 0 {
		delete(r.required, label)
	}
}

// RequiredTopologyChanged reports whether two sets of labels differ in the one that the pods of a
// group must share.
func (r *Registry) RequiredTopologyChanged(key Key, before, after map[string]string) bool {
	if tree, _ := r.TreeOf(key); tree != nil {
		return tree.requiredTopologyChanged(before, after)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.groups[key]
	return s != nil && s.group != nil && labelChanged(s.group.Topology.Required, before, after)
}

func (t *Tree) requiredTopologyChanged(before, after map[string]string) bool {
	return labelChanged(t.Topology.Required, before, after) ||
		slices.ContainsFunc(t.Children, func(child *Tree) bool { return child.requiredTopologyChanged(before, after) })
}

// AnyRequiredTopologyChanged reports whether RequiredTopologyChanged is true for any group.
func (r *Registry) AnyRequiredTopologyChanged(before, after map[string]string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for label := range r.required {
		if labelChanged(label, before, after) {
			return true
		}
	}
	return false
}

func labelChanged(label string, before, after map[string]string) bool {
	oldValue, had := before[label]
	newValue, has := after[label]
	return had != has || oldValue != newValue
}

// VictimsVersion returns a number that changes whenever the result of Victims does. It is 0 as long
// as there has been no such group.
func (r *Registry) VictimsVersion() uint64 {
	if r == nil {
		return 0
	}
	return r.victims.Load()
}

// Victims returns the groups whose pods are evicted in another way than pods without a group, in no
// order, and their version: groups that are evicted as a whole, and groups of Kubernetes, whose
// priority counts in place of that of their pods.
func (r *Registry) Victims() (groups []Group, version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.groups {
		if s.group.changesVictims() {
			groups = append(groups, r.inTreeLocked(*s.group))
		}
	}
	return groups, r.victims.Load()
}

// victimsChangeLocked notes what a change of a group changes for Victims. Both groups may be nil.
func (r *Registry) victimsChangeLocked(before, after *Group) {
	same := before != nil && after != nil && before.Parent == after.Parent &&
		before.EvictedWhole == after.EvictedWhole &&
		ptr.Equal(before.Priority, after.Priority) && ptr.Equal(before.PreemptionPolicy, after.PreemptionPolicy)
	if (before.changesVictims() || after.changesVictims()) && !same {
		r.victims.Add(1)
	}
}

func (r *Registry) stateLocked(key Key) *state {
	s := r.groups[key]
	if s == nil {
		s = &state{placed: map[types.UID]placement{}, owners: sets.New[types.UID]()}
		r.groups[key] = s
	}
	return s
}

// tidyLocked removes a group of which nothing is known any more.
func (r *Registry) tidyLocked(key Key, s *state) {
	if s.group == nil && len(s.placed) == 0 {
		delete(r.groups, key)
	}
}
