// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// victimGroups knows the groups whose pods are evicted in another way than pods without a group: a
// group may be evicted as a whole, and the priority of a PodGroup of Kubernetes counts in place of
// that of its pods. While there is no such group, it looks at no pod.
//
// It belongs to the goroutine that decides on the snapshot.
type victimGroups struct {
	snapshot *cache.Snapshot
	registry *podgroup.Registry
	// version is the one of groups.
	version uint64
	groups  []podgroup.Group
	byKey   map[podgroup.Key]*podgroup.Group
	whole   bool
	// lowest is the lowest priority of a group that has one.
	lowest int32
	// members are the pods of groups by the slot of their node, as they were at these versions of
	// the slots.
	members  [][]*corev1.Pod
	versions []uint64
	// latest is what current returned last.
	latest *units
}

func newVictimGroups(snapshot *cache.Snapshot, registry *podgroup.Registry) *victimGroups {
	return &victimGroups{snapshot: snapshot, registry: registry, lowest: math.MaxInt32}
}

// readGroups reads the groups if they have changed. It reports whether there are any.
func (v *victimGroups) readGroups() bool {
	if v.version == v.registry.VictimsVersion() {
		return len(v.groups) > 0
	}
	v.groups, v.version = v.registry.Victims()
	v.byKey, v.whole, v.lowest, v.latest = map[podgroup.Key]*podgroup.Group{}, false, math.MaxInt32, nil
	for i := range v.groups {
		group := &v.groups[i]
		v.byKey[group.Key] = group
		v.whole = v.whole || group.EvictedWhole
		if group.Priority != nil {
			v.lowest = min(v.lowest, *group.Priority)
		}
	}
	if !v.whole {
		v.members, v.versions = nil, nil
	}
	return len(v.groups) > 0
}

// mayHaveBelow reports whether a pod on a node may count with a priority below the given one.
func (v *victimGroups) mayHaveBelow(priority int32) bool {
	return v.snapshot.HasPodsBelow(priority) || v.readGroups() && v.lowest < priority
}

// of returns the group of a pod, nil if it has none, or one whose pods are evicted like others.
func (v *victimGroups) of(pod *corev1.Pod) *podgroup.Group {
	if !v.readGroups() {
		return nil
	}
	return v.byKey[podgroup.KeyOf(pod)]
}

// current returns how the pods of groups are evicted now, nil if they are evicted like others.
func (v *victimGroups) current() *units {
	if !v.readGroups() {
		return nil
	}
	if v.whole && v.readMembers() || v.latest == nil {
		v.latest = v.build()
	}
	return v.latest
}

// readMembers reads the pods of nodes that have changed. It reports whether that changed anything.
func (v *victimGroups) readMembers() (changed bool) {
	slots := v.snapshot.Slots()
	if len(v.versions) > slots {
		clear(v.members[slots:])
		v.members, v.versions, changed = v.members[:slots], v.versions[:slots], true
	}
	for slot := range slots {
		version := v.snapshot.Version(cache.Slot(slot))
		if slot == len(v.versions) {
			v.members, v.versions = append(v.members, nil), append(v.versions, ^version)
		}
		if v.versions[slot] == version {
			continue
		}
		had := len(v.members[slot]) > 0
		v.versions[slot], v.members[slot] = version, nil
		if node := v.snapshot.Info(cache.Slot(slot)); node != nil {
			for _, info := range node.Pods {
				if pod := info.GetPod(); podgroup.KeyOf(pod) != (podgroup.Key{}) {
					v.members[slot] = append(v.members[slot], pod)
				}
			}
		}
		changed = changed || had || len(v.members[slot]) > 0
	}
	return changed
}

// build makes the units of the groups.
func (v *victimGroups) build() *units {
	u := &units{version: v.version, groups: make(map[podgroup.Key]*unit, len(v.groups)), nodes: map[string]bool{},
		standIns: map[types.NamespacedName]*unit{}}
	for i := range v.groups {
		u.add(&v.groups[i])
	}
	for _, pods := range v.members {
		for _, pod := range pods {
			if group := u.groups[podgroup.KeyOf(pod)]; group != nil && group.whole {
				group.pods = append(group.pods, pod)
				u.nodes[pod.Spec.NodeName] = u.nodes[pod.Spec.NodeName] || group.standIn != ""
			}
		}
	}
	for _, group := range u.groups {
		slices.SortFunc(group.pods, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
				cmp.Compare(a.UID, b.UID))
		})
		if group.object.Spec.Priority == nil && len(group.pods) > 0 {
			group.object.Spec.Priority = new(corev1helpers.PodPriority(group.pods[0]))
		}
	}
	return u
}

// units are the groups that are evicted in their own way, at one time. They are not changed, so
// that dry runs may read them concurrently.
type units struct {
	// version is the one of the groups.
	version uint64
	groups  map[podgroup.Key]*unit
	// nodes are the nodes with pods of groups that are evicted as a whole. It is true if one of
	// these groups has a stand-in.
	nodes map[string]bool
	// standIns are the groups that have one, by its name.
	standIns map[types.NamespacedName]*unit
}

// unit is a group of units, or all groups of pods of a composite group that is evicted as a whole.
type unit struct {
	// object has the fields that upstream reads.
	object *schedulingv1beta1.PodGroup
	whole  bool
	// composite means that it is a composite group.
	composite bool
	// standIn is the name by which upstream knows a group that is evicted as a whole and is not a
	// PodGroup of Kubernetes: one of scheduler-plugins, or a composite group. "" if it is one.
	standIn string
	// pods are those on nodes, if the group is evicted as a whole, the most important first.
	pods []*corev1.Pod
}

// without returns the units without the groups that owned accepts.
func (u *units) without(owned func(podgroup.Key) bool) *units {
	if u == nil {
		return nil
	}
	others := *u
	others.groups = maps.Clone(u.groups)
	maps.DeleteFunc(others.groups, func(key podgroup.Key, _ *unit) bool { return owned(key) })
	return &others
}

// versionOf returns the version of the groups, 0 if there are no units.
func (u *units) versionOf() uint64 {
	if u == nil {
		return 0
	}
	return u.version
}

// spans reports whether a preemption on a node may evict pods on other nodes, too.
func (u *units) spans(node string) bool {
	if u == nil {
		return false
	}
	_, spans := u.nodes[node]
	return spans
}

// errNoGroup is the error for a group whose pods are evicted like pods without a group.
var errNoGroup = errors.New("the pods of the group are evicted like others")

// standInPrefixes begin the names of stand-ins. No name of a PodGroup of Kubernetes has a slash.
var standInPrefixes = map[podgroup.Source]string{
	podgroup.SchedulerPlugins: "scheduler-plugins/",
	podgroup.Composite:        "composite/",
}

// add adds a group. Those that are evicted with the same composite group share a unit.
func (u *units) add(group *podgroup.Group) {
	as := group.Key
	if group.EvictedWith != (podgroup.Key{}) {
		as = group.EvictedWith
	}
	name := types.NamespacedName{Namespace: as.Namespace, Name: standInPrefixes[as.Source] + as.Name}
	if known := u.standIns[name]; known != nil {
		u.groups[group.Key] = known
		return
	}
	added := &unit{object: &schedulingv1beta1.PodGroup{}, whole: group.EvictedWhole,
		composite: as.Source == podgroup.Composite}
	added.object.Spec.Priority = group.Priority
	if group.EvictedWhole {
		added.object.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{
			All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	if as.Source != podgroup.Kubernetes {
		added.standIn = name.Name
		u.standIns[name] = added
	}
	u.groups[group.Key] = added
}

// find returns a unit by the name by which upstream knows its group.
func (u *units) find(namespace, name string) (*unit, error) {
	group := u.standIns[types.NamespacedName{Namespace: namespace, Name: name}]
	if group == nil {
		group = u.groups[podgroup.Key{Source: podgroup.Kubernetes, Namespace: namespace, Name: name}]
	}
	if group == nil {
		return nil, errNoGroup
	}
	return group, nil
}

// forUpstream returns a node as upstream's search for victims needs it: a pod of a group that is
// evicted as a whole and has a stand-in names that as if it was a PodGroup of Kubernetes.
func (u *units) forUpstream(node fwk.NodeInfo) fwk.NodeInfo {
	if u == nil || !u.nodes[node.Node().Name] {
		return node
	}
	pods := slices.Clone(node.GetPods())
	for i, info := range pods {
		if group := u.groups[podgroup.KeyOf(info.GetPod())]; group != nil && group.whole && group.standIn != "" {
			pod := &corev1.Pod{}
			pod.Namespace, pod.Name = info.GetPod().Namespace, info.GetPod().Name
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new(group.standIn)}
			pods[i] = standIn{info, pod}
		}
	}
	return nodeWith{node, pods}
}

// standIn shows another pod in place of the one of a PodInfo.
type standIn struct {
	fwk.PodInfo
	pod *corev1.Pod
}

// GetPod implements fwk.PodInfo.
func (s standIn) GetPod() *corev1.Pod { return s.pod }

// nodeWith shows other pods on a node.
type nodeWith struct {
	fwk.NodeInfo
	pods []fwk.PodInfo
}

// GetPods implements fwk.NodeInfo.
func (n nodeWith) GetPods() []fwk.PodInfo { return n.pods }
