// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnode "k8s.io/component-helpers/node/topology"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

// twin is the cluster as a few maps and lists that are searched from end to end. After every
// refresh the cache, its snapshot and everything derived from it must equal what is built from the
// twin from scratch.
type twin struct {
	nodes map[string]*twinNode
	pods  map[types.UID]*twinPod
	zones []*twinZone
	lives int
}

type twinNode struct {
	obj  *corev1.Node
	life int
}

type twinPod struct {
	pod            *corev1.Pod
	assumed        bool
	hidden, placed bool // by an overlay
}

type twinZone struct {
	key   string
	names []string
}

func newTwin() *twin {
	return &twin{nodes: map[string]*twinNode{}, pods: map[types.UID]*twinPod{}}
}

func (w *twin) setNode(obj *corev1.Node) {
	n, ok := w.nodes[obj.Name]
	if !ok {
		w.lives++
		n = &twinNode{life: w.lives}
		w.nodes[obj.Name] = n
	}
	if ok && utilnode.GetZoneKey(n.obj) != utilnode.GetZoneKey(obj) {
		w.leaveZone(obj.Name)
		ok = false
	}
	n.obj = obj
	if !ok {
		w.enterZone(obj)
	}
}

func (w *twin) removeNode(name string) {
	delete(w.nodes, name)
	w.leaveZone(name)
}

func (w *twin) enterZone(obj *corev1.Node) {
	key := utilnode.GetZoneKey(obj)
	i := slices.IndexFunc(w.zones, func(z *twinZone) bool { return z.key == key })
	if i < 0 {
		i = len(w.zones)
		w.zones = append(w.zones, &twinZone{key: key})
	}
	w.zones[i].names = append(w.zones[i].names, obj.Name)
}

func (w *twin) leaveZone(name string) {
	for _, z := range w.zones {
		z.names = slices.DeleteFunc(z.names, func(n string) bool { return n == name })
	}
	w.zones = slices.DeleteFunc(w.zones, func(z *twinZone) bool { return len(z.names) == 0 })
}

func (w *twin) order() []string {
	names := []string{}
	for i := 0; len(names) < len(w.nodes); i++ {
		for _, z := range w.zones {
			if i < len(z.names) {
				names = append(names, z.names[i])
			}
		}
	}
	return names
}

// podsOn returns the pods of a node that are not hidden.
func (w *twin) podsOn(name string) []*corev1.Pod {
	return w.podsThat(func(p *twinPod) bool { return p.pod.Spec.NodeName == name && !p.hidden })
}

func (w *twin) podsThat(are func(*twinPod) bool) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, p := range w.pods {
		if are(p) {
			pods = append(pods, p.pod)
		}
	}
	return pods
}

// placeholders counts the nodes that are known only from their pods.
func (w *twin) placeholders() int {
	placeholders := map[string]bool{}
	for _, p := range w.pods {
		if w.nodes[p.pod.Spec.NodeName] == nil {
			placeholders[p.pod.Spec.NodeName] = true
		}
	}
	return len(placeholders)
}

func (w *twin) size() Size {
	assumed := w.podsThat(func(p *twinPod) bool { return p.assumed })
	return Size{Nodes: len(w.nodes) + w.placeholders(), Pods: len(w.pods), AssumedPods: len(assumed)}
}

// images returns the node counts that a node's ImageStates should have.
func (w *twin) images(name string) map[string]int {
	counts := map[string]int{}
	has := func(obj *corev1.Node, image string) bool {
		return slices.ContainsFunc(obj.Status.Images,
			func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, image) })
	}
	for _, image := range w.nodes[name].obj.Status.Images {
		for _, n := range image.Names {
			counts[n] = 0
			for _, other := range w.nodes {
				if has(other.obj, n) {
					counts[n]++
				}
			}
		}
	}
	return counts
}

// twinTest drives cache and twin with the same operations.
type twinTest struct {
	*testing.T
	random   *rand.Rand
	cache    *Cache
	snapshot *Snapshot
	twin     *twin
	ops      []string // since the last refresh
	quietly  bool     // no operation since then makes an entry
	trying   bool     // there is an overlay, and twin is the cluster that it shows
	uids     int
	end      uint64
	shown    map[int]shownNode // by life
	reader   *logReader
	lagging  *logReader
	domains  map[string]map[int]string // the label value by life, by key
	signed   signedView
	versions map[uint64]string // a description of the node with a version
	hits     map[string]int    // of the cases that this test must cover
}

type shownNode struct {
	slot Slot
	info *schedframework.NodeInfo
}

var twinKeys = []string{corev1.LabelTopologyZone, corev1.LabelHostname, "rack"}

func TestTwin(t *testing.T) {
	seed := rand.Uint64()
	hits := map[string]int{}
	for run := range uint64(12) {
		t.Run(fmt.Sprintf("random operations, seed %d.%d", seed, run), func(t *testing.T) {
			tt := &twinTest{
				versions: map[uint64]string{},
				T:        t, random: rand.New(rand.NewPCG(seed, run)), cache: New(), snapshot: NewSnapshot(),
				twin: newTwin(), quietly: true,
				shown: map[int]shownNode{}, reader: newLogReader(), lagging: newLogReader(),
				domains: map[string]map[int]string{}, hits: hits,
			}
			if run%3 == 1 {
				tt.cache.feed.limit = 5 // so that nodes are often built anew
			}
			for range 300 {
				for range tt.random.IntN(12) {
					tt.step()
				}
				tt.refresh()
				if t.Failed() {
					t.Fatalf("operations since the refresh before: %v", tt.ops)
				}
				tt.ops, tt.quietly = nil, true
			}
		})
	}
	for _, what := range []string{"placeholder", "re-created", "confirmed elsewhere", "moved", "stale removal",
		"silent refresh", "domain moved", "rebuilt", "slot used again", "lagging reader fell off",
		"lagging reader kept up", "hidden", "committed", "not committed", "placed again", "rolled back",
		"signatures numbered anew"} {
		if hits[what] == 0 {
			t.Errorf("never happened: %s", what)
		}
	}
}

func (tt *twinTest) pick(options ...string) string { return options[tt.random.IntN(len(options))] }

func (tt *twinTest) nodeName() string { return fmt.Sprintf("n%d", tt.random.IntN(9)) }

func (tt *twinTest) did(format string, args ...any) {
	tt.ops = append(tt.ops, fmt.Sprintf(format, args...))
}

func (tt *twinTest) must(err error) {
	tt.Helper()
	if err != nil {
		tt.Fatalf("%v; operations: %v", err, tt.ops)
	}
}

func (tt *twinTest) podOf(uid types.UID) *twinPod { return tt.twin.pods[uid] }

// anyPod returns a known pod that satisfies the condition, nil if there is none.
func (tt *twinTest) anyPod(want func(*twinPod) bool) *twinPod {
	var uids []string
	for uid, p := range tt.twin.pods {
		if want(p) {
			uids = append(uids, string(uid))
		}
	}
	if len(uids) == 0 {
		return nil
	}
	slices.Sort(uids)
	return tt.podOf(types.UID(tt.pick(uids...)))
}

func (tt *twinTest) step() {
	ops := []func(){
		tt.stepNode, tt.stepNode, tt.stepRemoveNode, tt.stepHeartbeat, tt.stepAssume, tt.stepAssume, tt.stepAssume,
		tt.stepForget,
		tt.stepConfirm, tt.stepConfirm, tt.stepAdd, tt.stepAdd, tt.stepUpdate, tt.stepUpdate, tt.stepStatus,
		tt.stepStatus, tt.stepMove, tt.stepRemove, tt.stepRemove, tt.stepReturn, tt.stepReplace,
	}
	if !tt.trying && tt.random.IntN(3) == 0 {
		ops = append(ops, tt.overlay)
	}
	if len(tt.twin.pods) > 40 { // more would make the checks slow and find nothing more
		ops = append(ops, tt.stepRemove, tt.stepRemove, tt.stepRemove, tt.stepForget, tt.stepForget)
	}
	ops[tt.random.IntN(len(ops))]()
}

// stepNode adds or changes a node.
func (tt *twinTest) stepNode() {
	name := tt.nodeName()
	node := newNode(name, tt.pick("", "x", "y", "z"), func(n *corev1.Node) {
		if rack := tt.pick("", "r1", "r2"); rack != "" {
			n.Labels["rack"] = rack
		}
		if tt.random.IntN(2) == 0 {
			n.Spec.Taints = []corev1.Taint{{Key: tt.pick("k", "l"), Effect: corev1.TaintEffectNoSchedule}}
		}
		withImages([]string{"i", "ii", "iii", "ii"}[:tt.random.IntN(5)]...)(n)
	})
	known := tt.twin.nodes[name]
	if known == nil && tt.cache.nodes[name] != nil {
		tt.hits["placeholder"]++
		if tt.cache.nodes[name].slot != noSlot {
			tt.hits["re-created"]++
		}
	}
	if known != nil && tt.random.IntN(2) == 0 {
		tt.did("update node %s", name)
		tt.cache.UpdateNode(quiet, known.obj, node)
	} else {
		tt.did("add node %s", name)
		tt.cache.AddNode(quiet, node)
	}
	tt.twin.setNode(node)
	tt.quietly = false
}

func (tt *twinTest) stepHeartbeat() {
	if known := tt.twin.nodes[tt.nodeName()]; known != nil {
		tt.did("heartbeat %s", known.obj.Name)
		node := editedNode(known.obj, func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Message: fmt.Sprint(tt.random.Int())}}
		})
		tt.cache.UpdateNode(quiet, known.obj, node)
		tt.twin.setNode(node)
	}
}

func (tt *twinTest) stepRemoveNode() {
	if known := tt.twin.nodes[tt.nodeName()]; known != nil {
		tt.did("remove node %s", known.obj.Name)
		tt.must(tt.cache.RemoveNode(quiet, known.obj))
		tt.twin.removeNode(known.obj.Name)
		tt.quietly = false
	}
}

// freshPod makes a new pod.
func (tt *twinTest) freshPod() *corev1.Pod {
	tt.uids++
	pod := newPod(fmt.Sprintf("p%d", tt.uids), tt.nodeName(), labelled(tt.pick("a", "b")),
		requesting(tt.pick("0", "100m", "1")))
	for _, edit := range []func(*corev1.Pod){
		listening(int32(80 + tt.random.IntN(3))), claiming(tt.pick("c1", "c2", "c3")), withAffinity,
		withRequiredAntiAffinity, reported,
		prioritized(tt.random.Int32N(3)),
	} {
		if tt.random.IntN(4) == 0 {
			edit(pod)
		}
	}
	return pod
}

func (tt *twinTest) stepAssume() {
	pod := tt.freshPod()
	tt.did("assume %s on %s", pod.Name, pod.Spec.NodeName)
	if tt.random.IntN(2) == 0 {
		tt.must(tt.cache.AssumePod(quiet, infoOf(pod)))
	} else {
		tt.must(tt.cache.AssumePodOfClass(quiet, pod, Class{ID: 1, Like: infoOf(pod)}))
	}
	tt.twin.pods[pod.UID] = &twinPod{pod: pod, assumed: true}
	tt.quietly = false
}

func (tt *twinTest) stepForget() {
	if p := tt.anyPod(func(p *twinPod) bool { return p.assumed }); p != nil {
		tt.did("forget %s", p.pod.Name)
		tt.must(tt.cache.ForgetPod(quiet, p.pod))
		delete(tt.twin.pods, p.pod.UID)
		tt.quietly = false
	}
}

func (tt *twinTest) stepConfirm() {
	p := tt.anyPod(func(p *twinPod) bool { return p.assumed })
	if p == nil {
		return
	}
	confirmed := objects.Edited(p.pod, running)
	if tt.random.IntN(5) == 0 {
		confirmed.Spec.NodeName = tt.nodeName()
		tt.hits["confirmed elsewhere"]++
		tt.quietly = false
	}
	tt.did("confirm %s on %s", confirmed.Name, confirmed.Spec.NodeName)
	tt.must(tt.cache.AddPod(quiet, confirmed))
	p.pod, p.assumed = confirmed, false
}

func (tt *twinTest) stepAdd() {
	pod := tt.freshPod()
	tt.did("add %s on %s", pod.Name, pod.Spec.NodeName)
	tt.must(tt.cache.AddPod(quiet, pod))
	tt.twin.pods[pod.UID] = &twinPod{pod: pod}
	tt.quietly = false
}

// update reports a change of a pod that was added.
func (tt *twinTest) update(what string, edits ...func(*corev1.Pod)) {
	if p := tt.anyPod(func(p *twinPod) bool { return !p.assumed }); p != nil {
		updated := objects.Edited(p.pod, edits...)
		tt.did("%s %s", what, p.pod.Name)
		tt.must(tt.cache.UpdatePod(quiet, p.pod, updated))
		p.pod = updated
	}
}

func (tt *twinTest) stepUpdate() {
	tt.quietly = false
	tt.update("change", []func(*corev1.Pod){
		labelled(tt.pick("a", "b")), terminating, requesting(tt.pick("100m", "2")),
		listening(int32(80 + tt.random.IntN(3))),
	}[tt.random.IntN(4)])
}

func (tt *twinTest) stepStatus() { tt.update("status of", running) }

func (tt *twinTest) stepMove() {
	tt.hits["moved"]++
	tt.quietly = false
	tt.update("move", onNode(tt.nodeName()))
}

func (tt *twinTest) stepRemove() {
	if p := tt.anyPod(func(*twinPod) bool { return true }); p != nil {
		object := p.pod
		if tt.random.IntN(3) == 0 {
			object = objects.Edited(object, onNode(tt.pick("", "n0")))
			tt.hits["stale removal"]++
		}
		tt.did("remove %s", object.Name)
		tt.must(tt.cache.RemovePod(quiet, object))
		delete(tt.twin.pods, object.UID)
		tt.quietly = false
	}
}

// stepReturn removes a pod, and adds another object of the same pod.
func (tt *twinTest) stepReturn() {
	if p := tt.anyPod(func(*twinPod) bool { return true }); p != nil {
		tt.did("remove and add %s", p.pod.Name)
		tt.must(tt.cache.RemovePod(quiet, p.pod))
		p.pod, p.assumed = objects.Edited(p.pod, onNode(tt.pick(p.pod.Spec.NodeName, tt.nodeName()))), false
		tt.must(tt.cache.AddPod(quiet, p.pod))
		tt.quietly = false
	}
}

// stepReplace reports a pod as an update of one whose deletion was missed.
func (tt *twinTest) stepReplace() {
	if p := tt.anyPod(func(*twinPod) bool { return true }); p != nil {
		pod := tt.freshPod()
		tt.did("%s takes the place of %s", pod.Name, p.pod.Name)
		tt.must(tt.cache.UpdatePod(quiet, p.pod, pod))
		delete(tt.twin.pods, p.pod.UID)
		tt.twin.pods[pod.UID] = &twinPod{pod: pod}
		tt.quietly = false
	}
}
