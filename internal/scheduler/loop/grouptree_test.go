// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

// treeWorld is a groupWorld with trees of groups.
type treeWorld struct{ *groupWorld }

func newTreeWorld(t testing.TB) *treeWorld {
	w := &treeWorld{newGroupWorld(t)}
	for _, source := range []podgroup.Source{podgroup.Kubernetes, podgroup.Composite} {
		w.cluster.Groups.SetServed(source, func() bool { return true }, nil)
	}
	return w
}

// composite adds a composite group. A parent or a topology may be "".
func (w *treeWorld) composite(name, parent string, minGroups int, topology string) {
	w.cluster.Queue.TreeChanged(logr.Discard(), w.cluster.Groups.SetComposite(podgroup.CompositeGroup{
		Key: podgroup.CompositeKey("default", name), Parent: parent, MinGroups: minGroups,
		Topology: podgroup.Topology{Required: topology},
	}))
}

// group adds a group of pods and its pods, each with a request of CPU.
func (w *treeWorld) group(name, parent string, minMember int, topology string, requests ...string) {
	key := groupKey(name)
	w.cluster.Groups.SetGroup(podgroup.Group{Key: key, Parent: parent, MinMember: minMember,
		Topology: podgroup.Topology{Required: topology}})
	w.cluster.Queue.GroupChanged(logr.Discard(), key)
	w.pods(name, 0, requests...)
}

func groupKey(name string) podgroup.Key {
	return podgroup.Key{Source: podgroup.Kubernetes, Namespace: "default", Name: name}
}

// pods adds pods of a group. They are numbered from first.
func (w *treeWorld) pods(group string, first int, requests ...string) {
	for i, cpu := range requests {
		w.addPod(fmt.Sprintf("%s-%d", group, first+i), cpu, inGroup(group))
	}
}

func inGroup(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Labels = nil
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
}

// place runs one attempt, and returns the pods that got a node and where, such as "a-0 n1".
func (w *treeWorld) place() (placed []string) {
	members := w.schedule()
	for _, m := range members {
		placed = append(placed, m.pod.Pod.Name+" "+m.placed.NodeName)
	}
	w.end(members)
	slices.Sort(placed)
	return placed
}

// placedGroups returns the groups of the pods that got a node in one attempt, with their number.
func (w *treeWorld) placedGroups() string {
	count := map[string]int{}
	for _, pod := range w.place() {
		count[pod[:strings.LastIndex(pod, "-")]]++
	}
	return fmt.Sprint(count)
}

func threeOf(cpu string) []string { return []string{cpu, cpu, cpu} }

// The names of the cases are those of kube-scheduler's test/integration/scheduler/podgroup.
func TestTreesOfGroups(t *testing.T) {
	for name, test := range map[string]struct {
		build  func(*treeWorld)
		want   string
		reason string // of x-0, the first pod that gets no node
	}{
		"TestCPGHierarchicalScheduling": {func(w *treeWorld) {
			w.addNode("n", "20")
			w.composite("root", "", 2, "")
			w.composite("sub1", "root", 2, "")
			w.composite("sub2", "root", 1, "")
			w.composite("sub3", "root", 2, "")
			w.group("a", "sub1", 3, "", threeOf("1")...)
			w.group("b", "sub1", 3, "", threeOf("1")...)
			w.group("c", "sub1", 3, "", threeOf("100")...)
			w.group("d", "sub2", 1, "", threeOf("1")...)
			w.group("e", "sub2", 3, "", threeOf("1")...)
			w.group("x", "sub3", 3, "", threeOf("1")...)
			w.group("y", "sub3", 3, "", threeOf("100")...)
		}, "map[a:3 b:3 d:3 e:3]", "composite pod group default/sub3: 1 of 2 groups that must be placed together " +
			"fit; y-0: pod group default/y: 0 of 3 pods that must be placed together fit; " +
			"y-0: 0/1 nodes are available: 1 Insufficient cpu."},
		"TestCPGMinGroupCount": {func(w *treeWorld) {
			w.addNode("n", "20")
			w.composite("root", "", 2, "")
			w.group("a", "root", 3, "", threeOf("1")...)
			w.group("b", "root", 3, "", threeOf("1")...)
			w.group("x", "root", 3, "", "100", "1", "1")
		}, "map[a:3 b:3]", "pod group default/x: 0 of 3 pods that must be placed together fit; " +
			"x-0: 0/1 nodes are available: 1 Insufficient cpu."},
		"TestCPGBasicWithGangChildren": {func(w *treeWorld) {
			w.addNode("n", "20")
			w.composite("root", "", 1, "")
			w.group("a", "root", 3, "", threeOf("1")...)
			w.group("x", "root", 3, "", "100", "1", "1")
		}, "map[a:3]", "pod group default/x: 0 of 3 pods that must be placed together fit; " +
			"x-0: 0/1 nodes are available: 1 Insufficient cpu."},
		"TestCPGGangWithBasicChildren": {func(w *treeWorld) {
			w.addNode("n", "8")
			w.composite("root", "", 2, "")
			w.group("a", "root", 1, "", threeOf("1")...)
			w.group("b", "root", 1, "", threeOf("1")...)
			w.group("x", "root", 1, "", threeOf("10")...)
		}, "map[a:3 b:3]", "pod group default/x: 0 of 1 pods that must be placed together fit; " +
			"x-0: 0/1 nodes are available: 1 Insufficient cpu."},
		"TestCPGBasicWithUnschedulableBasicChildren": {func(w *treeWorld) {
			w.addNode("n", "20")
			w.composite("root", "", 1, "")
			w.group("x", "root", 1, "", "50", "50")
			w.group("y", "root", 1, "", "50", "50")
		}, "map[]", "composite pod group default/root: 0 of 1 groups that must be placed together fit; " +
			"x-0: pod group default/x: 0 of 1 pods that must be placed together fit; " +
			"x-0: 0/1 nodes are available: 1 Insufficient cpu."},
		"parent CPG has topology constraints, children do not; schedules on a single rack": {func(w *treeWorld) {
			w.addNode("n1", "4", "rack", "r1")
			w.addNode("n2", "4", "rack", "r2")
			w.addNode("n3", "4", "rack", "r2")
			w.composite("root", "", 2, "rack")
			w.group("a", "root", 3, "", threeOf("1")...)
			w.group("b", "root", 3, "", threeOf("1")...)
		}, "map[a:3 b:3]", ""},
		"parent CPG has topology constraints, children do not; remains pending when no single rack can fit all " +
			"children": {
			func(w *treeWorld) {
				w.addNode("n1", "4", "rack", "r1")
				w.addNode("n2", "4", "rack", "r2")
				w.composite("root", "", 2, "rack")
				w.group("a", "root", 3, "", threeOf("1")...)
				w.group("x", "root", 3, "", threeOf("1")...)
			}, "map[]", "composite pod group default/root: 6 pods must be placed together, " +
				"but there are resources for 4 of them at most in one rack"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTreeWorld(t)
			test.build(w)
			w.Expect(w.placedGroups()).To(Equal(test.want))
			if test.reason != "" {
				w.Expect(w.reasons).To(HaveKeyWithValue("x-0", test.reason))
			}
		})
	}
}

// Topology is resolved from the top down: racks are chosen in the zone of the tree.
func TestTreesOfGroupsInDomains(t *testing.T) {
	racks := func(w *treeWorld) {
		for zone := range 2 {
			for rack := range 3 {
				for n := range 2 {
					name := fmt.Sprintf("z%d-r%d-n%d", zone, rack, n)
					w.addNode(name, "2", "zone", fmt.Sprint(zone), "rack", fmt.Sprintf("z%d-r%d", zone, rack))
				}
			}
		}
	}
	inOne := func(w *treeWorld, placed []string, group, label string) string {
		values := map[string]bool{}
		for _, pod := range placed {
			name, node, _ := strings.Cut(pod, " ")
			if strings.HasPrefix(name, group) {
				info, err := w.cluster.Snapshot.Get(node)
				w.Expect(err).NotTo(HaveOccurred())
				values[info.Node().Labels[label]] = true
			}
		}
		w.Expect(values).To(HaveLen(1), "%v in one %s", placed, label)
		for value := range values {
			return value
		}
		return ""
	}
	for name, test := range map[string]struct {
		root, sub, leaf string // labels
	}{
		"parent CPG and child PGs both have topology constraints": {"zone", "", "rack"},
		"root=none, sub=zone, leaf=rack":                          {"", "zone", "rack"},
		"root=zone, sub=rack, leaf=none":                          {"zone", "rack", ""},
		"root=zone, sub=zone, leaf=rack":                          {"zone", "zone", "rack"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTreeWorld(t)
			racks(w)
			w.composite("root", "", 2, test.root)
			w.composite("sub1", "root", 1, test.sub)
			w.composite("sub2", "root", 1, test.sub)
			w.group("a", "sub1", 4, test.leaf, "1", "1", "1", "1")
			w.group("b", "sub2", 4, test.leaf, "1", "1", "1", "1")
			placed := w.place()
			w.Expect(placed).To(HaveLen(8))
			inOne(w, placed, "a", "rack")
			inOne(w, placed, "b", "rack")
			if test.root != "" {
				inOne(w, placed, "", test.root)
			}
		})
	}
}

// A group that is taken back leaves the nodes of its rack to those that follow, and the groups
// before it where they are.
func TestGroupOfTreeIsTakenBack(t *testing.T) {
	w := newTreeWorld(t)
	w.addNode("n1", "3", "rack", "r1")
	w.addNode("n2", "3", "rack", "r2")
	w.composite("root", "", 2, "")
	w.group("a", "root", 3, "rack", threeOf("1")...)
	w.group("b", "root", 4, "", "1", "1", "1", "1") // three fit
	w.group("c", "root", 3, "rack", threeOf("1")...)
	w.Expect(w.placedGroups()).To(Equal("map[a:3 c:3]"))
	w.Expect(w.reasons).To(HaveKeyWithValue("b-0", HavePrefix(
		"pod group default/b: 3 of 4 pods that must be placed together fit; b-3: 0/2 nodes are available")))
}

// TestCPGDynamicChildAddition of kube-scheduler.
func TestGroupsJoinTree(t *testing.T) {
	w := newTreeWorld(t)
	w.addNode("n", "20")
	w.composite("root", "", 1, "")
	w.group("a", "root", 1, "", "1", "1")
	w.Expect(w.placedGroups()).To(Equal("map[a:2]"))
	w.group("b", "root", 1, "", "1", "1")
	w.Expect(w.placedGroups()).To(Equal("map[b:2]"))

	w.composite("sub", "root", 2, "")
	w.group("c", "sub", 1, "", "1", "1")
	w.Expect(w.refusalOf("c-0")).To(Equal(
		"fewer than 2 groups of the composite pod group default/sub are ready to be scheduled"))
	w.group("d", "sub", 1, "", "1", "1")
	w.Expect(w.placedGroups()).To(Equal("map[c:2 d:2]"))
}

// refusalOf returns why the gate of its group holds a pod.
func (w *treeWorld) refusalOf(pod string) string {
	for _, state := range w.cluster.Queue.Dump() {
		if state.Pod.Name == pod && state.Place == queue.Gated {
			return state.GatingMessage
		}
	}
	return ""
}

func TestTreesWaitForTheirObjects(t *testing.T) {
	w := newTreeWorld(t)
	w.addNode("n", "20")
	w.group("a", "sub", 2, "", "1")
	w.Expect(w.refusalOf("a-0")).To(Equal("fewer than 2 pods of the pod group default/a are ready to be scheduled"))
	w.pods("a", 1, "1")
	w.Expect(w.refusalOf("a-0")).To(Equal("there is no CompositePodGroup default/sub"))
	w.composite("sub", "root", 1, "")
	w.Expect(w.refusalOf("a-1")).To(Equal("there is no CompositePodGroup default/root"))
	w.composite("root", "", 1, "")
	w.Expect(w.placedGroups()).To(Equal("map[a:2]"))

	w.composite("loop1", "loop2", 1, "")
	w.composite("loop2", "loop1", 1, "")
	w.group("b", "loop1", 1, "", "1")
	w.Expect(w.refusalOf("b-0")).To(Equal("more than 4 CompositePodGroups are in each other, or one is in itself"))
}

// A tree preempts with the priority of its root, once for all of its groups. A group that does not
// fit in any case evicts nothing.
func TestATreePreempts(t *testing.T) {
	w := newTreeWorld(t)
	for _, node := range []string{"n1", "n2", "n3"} {
		w.addNode(node, "3")
		w.addRunning("low-"+node, node, "3", 50)
	}
	w.addNode("n4", "3")
	w.addRunning("high", "n4", "3", 100)
	w.prioritized("root", 2, 100, false)
	w.group("a", "root", 3, "", "1", "1", "100")
	w.group("b", "root", 3, "", threeOf("1")...)
	w.group("c", "root", 3, "", threeOf("1")...)
	w.Expect(w.place()).To(BeEmpty())
	evicted := w.evictedFor("b-0")
	w.Expect(evicted).To(And(HaveLen(2), HaveEach(HavePrefix("low-"))))
	w.Expect(w.nominated()).To(And(HaveLen(2), HaveEach(3)))
	w.gone(evicted...)
	w.retry()
	w.Expect(w.placedGroups()).To(Equal("map[b:3 c:3]"))
}

// prioritized adds a composite group with a priority.
func (w *treeWorld) prioritized(name string, minGroups int, priority int32, whole bool) {
	w.cluster.Queue.TreeChanged(logr.Discard(), w.cluster.Groups.SetComposite(podgroup.CompositeGroup{
		Key: podgroup.CompositeKey("default", name), MinGroups: minGroups, Priority: &priority, EvictedWhole: whole,
	}))
}

// The priority of the root of a tree decides if its pods may be evicted for a group, not their own.
func TestTheRootOfATreeDecidesOnItsVictims(t *testing.T) {
	for name, test := range map[string]struct {
		root, own, other int32
		whole            bool
		evicted          []string
	}{
		"a root of a low priority":             {1, 200, 100, false, []string{"victims-"}},
		"a root of a low priority, whole":      {1, 200, 100, true, []string{"victims-", "victims-"}},
		"a root of the same priority":          {100, 1, 50, false, []string{"other"}},
		"a root of the same priority, whole":   {100, 1, 50, true, []string{"other"}},
		"nothing of a low priority":            {100, 1, 100, false, nil},
		"only the pods of a tree, all of them": {1, 200, 200, true, []string{"victims-", "victims-"}},
	} {
		for _, topology := range []string{"", "rack"} {
			t.Run(name+", "+topology, func(t *testing.T) {
				w := newTreeWorld(t)
				w.prioritized("root", 1, test.root, test.whole)
				w.group("victims", "root", 1, "")
				for i, victim := range []string{"victims-1", "victims-2"} {
					node := fmt.Sprint("n", i)
					w.addNode(node, "1", "rack", node)
					w.addRunning(victim, node, "1", test.own, inGroup("victims"))
				}
				w.addNode("n3", "1", "rack", "n3")
				w.addRunning("other", "n3", "1", test.other)
				w.setTopology(1, podgroup.Topology{Required: topology})
				w.addMembers(1)
				w.Expect(w.schedule()).To(BeEmpty())
				evicted := w.evicted()
				w.Expect(evicted).To(HaveLen(len(test.evicted)))
				for i, prefix := range test.evicted {
					w.Expect(evicted[i]).To(HavePrefix(prefix))
				}
			})
		}
	}
}

// "CPG Tie-Breaking: PodGroup chosen over CompositePodGroup" of kube-scheduler. Without this rule,
// the pod with the greater UID would be evicted.
func TestAPodIsEvictedBeforeATree(t *testing.T) {
	w := newTreeWorld(t)
	w.prioritized("root", 1, 10, true)
	w.group("a", "root", 1, "")
	w.cluster.Groups.SetGroup(podgroup.Group{Key: groupKey("b"), MinMember: 1, Priority: ptr.To[int32](10)})
	w.addNode("n", "2")
	w.addRunning("1", "n", "1", 10, inGroup("b"))
	w.addRunning("2", "n", "1", 10, inGroup("a"))
	w.setMinMember(1)
	w.addMembers(1)
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.evicted()).To(Equal([]string{"1"}))
}

// TestATreeIsWokenByWhatKeptItFromPreempting has a tree that is too large for the free resources,
// and for the nodes of each rack that admit its pods.
func TestATreeIsWokenByWhatKeptItFromPreempting(t *testing.T) {
	w := newTreeWorld(t)
	for _, name := range []string{"a1", "a2", "b1"} {
		node := objects.NodeOf(name, "rack", name[:1])
		node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1")
		if name == "a2" {
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
		}
		w.cluster.Cache.AddNode(logr.Discard(), node)
		w.addRunning("low-"+name, name, "1", 10)
	}
	w.composite("root", "", 1, "")
	w.group("x", "root", 2, "rack")
	for _, name := range []string{"x-0", "x-1"} {
		w.addPod(name, "1", inGroup("x"), withPriority(100))
	}
	w.Expect(w.place()).To(BeEmpty())
	w.Expect(w.reasons["x-0"]).To(HaveSuffix("there are resources for 0 of them at most"))
	state, _ := w.cluster.Queue.Get("x-0")
	w.Expect(state.UnschedulablePlugins).To(ContainElements("NodeResourcesFit", "TaintToleration"))
}
