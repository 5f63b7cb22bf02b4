// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnode "k8s.io/component-helpers/node/topology"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// The twin is the cluster as a few maps and lists that are searched from end to end. After every refresh the cache,
// its snapshot and all that hangs on it must be what comes out of them when everything is built from scratch.
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
	pod     *corev1.Pod
	assumed bool
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

func (w *twin) podsOn(name string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, p := range w.pods {
		if p.pod.Spec.NodeName == name {
			pods = append(pods, p.pod)
		}
	}
	return pods
}

// ghosts counts the nodes that are only known by their pods.
func (w *twin) ghosts() int {
	ghosts := map[string]bool{}
	for _, p := range w.pods {
		if w.nodes[p.pod.Spec.NodeName] == nil {
			ghosts[p.pod.Spec.NodeName] = true
		}
	}
	return len(ghosts)
}

// images returns the node counts that a node's ImageStates should have.
func (w *twin) images(name string) map[string]int {
	counts := map[string]int{}
	has := func(obj *corev1.Node, image string) bool {
		return slices.ContainsFunc(obj.Status.Images, func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, image) })
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
	quietly  bool     // all ops since then were such as make no entry
	uids     int
	end      uint64
	shown    map[int]shownNode // by life
	reader   *logReader
	lagging  *logReader
	domains  map[string]domainView
	hits     map[string]int // of what this test means to cover
}

type shownNode struct {
	slot Slot
	info *schedframework.NodeInfo
}

type domainView struct {
	epoch  uint64
	values map[int]string // by life
}

var twinKeys = []string{corev1.LabelTopologyZone, corev1.LabelHostname, "rack"}

func TestTwin(t *testing.T) {
	seed := rand.Uint64()
	hits := map[string]int{}
	for run := range uint64(12) {
		t.Run(fmt.Sprintf("random operations, seed %d.%d", seed, run), func(t *testing.T) {
			tt := &twinTest{
				T: t, random: rand.New(rand.NewPCG(seed, run)), cache: New(), snapshot: NewSnapshot(), twin: newTwin(), quietly: true,
				shown: map[int]shownNode{}, reader: newLogReader(), lagging: newLogReader(), domains: map[string]domainView{}, hits: hits,
			}
			if run%3 == 1 {
				tt.cache.feed.limit = 5 // so that nodes are built anew all the time
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
	for _, what := range []string{"ghost", "reborn", "confirmed elsewhere", "moved", "stale removal", "silent refresh", "epoch moved", "rebuilt", "slot used again", "lagging reader fell off", "lagging reader kept up"} {
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

// anyPod returns a pod that is known and for which the condition holds, nil if there is none.
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
		tt.stepNode, tt.stepNode, tt.stepRemoveNode, tt.stepHeartbeat, tt.stepAssume, tt.stepAssume, tt.stepAssume, tt.stepForget,
		tt.stepConfirm, tt.stepConfirm, tt.stepAdd, tt.stepAdd, tt.stepUpdate, tt.stepUpdate, tt.stepStatus, tt.stepStatus, tt.stepMove, tt.stepRemove, tt.stepRemove,
	}
	if len(tt.twin.pods) > 40 { // more of them make the checks slow and find nothing more
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
		tt.hits["ghost"]++
		if tt.cache.nodes[name].slot != noSlot {
			tt.hits["reborn"]++
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

// freshPod makes a pod that nobody has seen.
func (tt *twinTest) freshPod() *corev1.Pod {
	tt.uids++
	pod := newPod(fmt.Sprintf("p%d", tt.uids), tt.nodeName(), labelled(tt.pick("a", "b")), requesting(tt.pick("0", "100m", "1")))
	for _, edit := range []func(*corev1.Pod){
		listening(int32(80 + tt.random.IntN(3))), claiming(tt.pick("c1", "c2", "c3")), withAffinity, withRequiredAntiAffinity, reported,
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
	confirmed := edited(p.pod, running)
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
		updated := edited(p.pod, edits...)
		tt.did("%s %s", what, p.pod.Name)
		tt.must(tt.cache.UpdatePod(quiet, p.pod, updated))
		p.pod = updated
	}
}

func (tt *twinTest) stepUpdate() {
	tt.quietly = false
	tt.update("change", []func(*corev1.Pod){
		labelled(tt.pick("a", "b")), terminating, requesting(tt.pick("100m", "2")), listening(int32(80 + tt.random.IntN(3))),
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
			object = edited(object, onNode(tt.pick("", "n0")))
			tt.hits["stale removal"]++
		}
		tt.did("remove %s", object.Name)
		tt.must(tt.cache.RemovePod(quiet, object))
		delete(tt.twin.pods, object.UID)
		tt.quietly = false
	}
}

// refresh brings the snapshot up to date and checks everything.
func (tt *twinTest) refresh() {
	if err := tt.cache.UpdateSnapshot(quiet, tt.snapshot); err != nil {
		tt.Fatal(err)
	}
	tt.checkLog()
	tt.checkCache()
	tt.checkNodes()
	tt.checkLists()
	for _, key := range twinKeys {
		tt.checkTopology(key)
	}
	scratch := NewSnapshot()
	tt.must(tt.cache.UpdateSnapshot(quiet, scratch))
	if diff := diffSnapshots(scratch, tt.snapshot); diff != "" {
		tt.Errorf("a snapshot made from scratch differs:\n%s", diff)
	}
	if tt.random.IntN(3) == 0 {
		tt.checkDump()
	}
}

func (tt *twinTest) checkCache() {
	if got, want := tt.cache.NodeCount(), len(tt.twin.nodes)+tt.twin.ghosts(); got != want {
		tt.Errorf("NodeCount: got %d, want %d", got, want)
	}
	if got, want := tt.cache.PodCount(), len(tt.twin.pods); got != want {
		tt.Errorf("PodCount: got %d, want %d", got, want)
	}
	assumed := 0
	for uid, p := range tt.twin.pods {
		if got, err := tt.cache.GetPod(p.pod); err != nil || got != p.pod {
			tt.Errorf("GetPod %s: got %p, %v, want %p", uid, got, err, p.pod)
		}
		if got, err := tt.cache.IsAssumedPod(p.pod); err != nil || got != p.assumed {
			tt.Errorf("IsAssumedPod %s: got %v, %v, want %v", uid, got, err, p.assumed)
		}
		if p.assumed {
			assumed++
		}
	}
	if tt.cache.assumed != assumed {
		tt.Errorf("assumed pods: got %d, want %d", tt.cache.assumed, assumed)
	}
}

func (tt *twinTest) checkDump() {
	dump := tt.cache.Dump()
	for name, info := range dump.Nodes {
		var obj *corev1.Node
		if n := tt.twin.nodes[name]; n != nil {
			obj = n.obj
		}
		if diff := diffNodeInfos(scratch(obj, tt.twin.podsOn(name)), info); diff != "" {
			tt.Errorf("dump of node %s (-want +got):\n%s", name, diff)
		}
	}
	if len(dump.Nodes) != tt.cache.NodeCount() || len(dump.AssumedPods) != tt.cache.assumed {
		tt.Errorf("dump has %d nodes and %d assumed pods", len(dump.Nodes), len(dump.AssumedPods))
	}
}

func (tt *twinTest) checkNodes() {
	if tt.snapshot.NumNodes() != len(tt.twin.nodes) {
		tt.Errorf("NumNodes: got %d, want %d", tt.snapshot.NumNodes(), len(tt.twin.nodes))
	}
	shown := map[int]shownNode{}
	for name, n := range tt.twin.nodes {
		slot, ok := tt.snapshot.SlotOf(name)
		if !ok || !tt.snapshot.Alive(slot) {
			tt.Errorf("node %s has no slot", name)
			continue
		}
		info := tt.snapshot.Info(slot)
		if diff := diffNodeInfos(scratch(n.obj, tt.twin.podsOn(name)), info); diff != "" {
			tt.Errorf("node %s (-want +got):\n%s", name, diff)
		}
		if got, want := fmt.Sprint(imageCounts(info)), fmt.Sprint(tt.twin.images(name)); got != want {
			tt.Errorf("images of %s: got %s, want %s", name, got, want)
		}
		tt.checkOrderOfPods(name, info)
		shown[n.life] = shownNode{slot, info}
		if before, ok := tt.shown[n.life]; ok && before != shown[n.life] {
			tt.Errorf("node %s has another slot or NodeInfo than before", name)
		}
	}
	for life, now := range shown {
		for past, before := range tt.shown {
			if life != past && now.slot == before.slot {
				tt.hits["slot used again"]++
				if now.info == before.info {
					tt.Errorf("slot %d shows another node in the NodeInfo of the last", now.slot)
				}
			}
		}
	}
	tt.shown = shown
}

// checkOrderOfPods: the cache's list of pods is in the order of the NodeInfo's, as the cache says of itself.
func (tt *twinTest) checkOrderOfPods(name string, info *schedframework.NodeInfo) {
	pods := tt.cache.nodes[name].pods
	for i, pod := range info.Pods {
		if i >= len(pods) || pod != fwk.PodInfo(pods[i]) {
			tt.Errorf("the pods of %s are in another order", name)
			return
		}
	}
}

func (tt *twinTest) checkLists() {
	var order, affinity, antiAffinity []string
	claims := map[string]bool{}
	for _, name := range tt.twin.order() {
		info := scratch(nil, tt.twin.podsOn(name))
		order = append(order, name)
		if len(info.PodsWithAffinity) > 0 {
			affinity = append(affinity, name)
		}
		if len(info.PodsWithRequiredAntiAffinity) > 0 {
			antiAffinity = append(antiAffinity, name)
		}
		for claim := range info.PVCRefCounts {
			claims[claim] = true
		}
		slot, _ := tt.snapshot.SlotOf(name)
		if tt.snapshot.WithPVCs().Has(slot) != (len(info.PVCRefCounts) > 0) {
			tt.Errorf("set of nodes with PVCs is wrong about %s", name)
		}
		if tt.snapshot.WithAffinity().Has(slot) != (len(info.PodsWithAffinity) > 0) {
			tt.Errorf("set of nodes with affinity is wrong about %s", name)
		}
		if tt.snapshot.WithRequiredAntiAffinity().Has(slot) != (len(info.PodsWithRequiredAntiAffinity) > 0) {
			tt.Errorf("set of nodes with required anti-affinity is wrong about %s", name)
		}
	}
	if tt.snapshot.WithAffinity().Len() != len(affinity) || tt.snapshot.WithRequiredAntiAffinity().Len() != len(antiAffinity) {
		tt.Error("a set of nodes has dead slots")
	}
	for what, lists := range map[string][2][]string{
		"List":                                 {order, nodeNames(tt.T, tt.snapshot.List)},
		"HavePodsWithAffinityList":             {affinity, nodeNames(tt.T, tt.snapshot.HavePodsWithAffinityList)},
		"HavePodsWithRequiredAntiAffinityList": {antiAffinity, nodeNames(tt.T, tt.snapshot.HavePodsWithRequiredAntiAffinityList)},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			tt.Errorf("%s: got %v, want %v", what, lists[1], lists[0])
		}
	}
	for _, claim := range []string{"ns/c1", "ns/c2", "ns/c3"} {
		if got := tt.snapshot.IsPVCUsedByPods(claim); got != claims[claim] {
			tt.Errorf("IsPVCUsedByPods(%s): got %v", claim, got)
		}
	}
}

func (tt *twinTest) checkTopology(key string) {
	topology := tt.snapshot.Topo(key)
	domains := topology.Domains()
	if len(domains) != tt.snapshot.Slots() {
		tt.Fatalf("topology %s has %d slots of %d", key, len(domains), tt.snapshot.Slots())
	}
	values, nodes := map[int]string{}, map[string]int{}
	alive := 0
	for slot, domain := range domains {
		if !tt.snapshot.Alive(Slot(slot)) {
			if domain != -1 {
				tt.Errorf("topology %s: dead slot %d is in domain %d", key, slot, domain)
			}
			continue
		}
		node := tt.snapshot.Info(Slot(slot)).Node()
		value, has := node.Labels[key]
		if has != (domain >= 0) || has && (topology.Value(domain) != value || int(domain) >= topology.Bound()) {
			tt.Errorf("topology %s: node %s with %q is in domain %d", key, node.Name, value, domain)
			continue
		}
		if has {
			nodes[value]++
			alive++
		}
		values[tt.twin.nodes[node.Name].life] = fmt.Sprint(has, value)
	}
	numbers := map[string]int32{}
	for slot, domain := range domains {
		if domain < 0 {
			continue
		}
		value := tt.snapshot.Info(Slot(slot)).Node().Labels[key]
		if known, ok := numbers[value]; ok && known != domain {
			tt.Errorf("topology %s: value %q has two domains", key, value)
		}
		numbers[value] = domain
		if topology.Nodes(domain) != nodes[value] {
			tt.Errorf("topology %s: %d nodes in %q, want %d", key, topology.Nodes(domain), value, nodes[value])
		}
	}
	if topology.Len() != len(nodes) || topology.Unique() != (alive == len(nodes)) {
		tt.Errorf("topology %s: Len %d, Unique %v with %v", key, topology.Len(), topology.Unique(), nodes)
	}
	before, ok := tt.domains[key]
	moved := false
	for life, value := range values {
		if was, ok := before.values[life]; ok && was != value {
			moved = true
		}
	}
	if ok && moved && topology.Epoch() == before.epoch {
		tt.Errorf("topology %s: a label moved and the epoch did not", key)
	}
	if ok && moved {
		tt.hits["epoch moved"]++
	}
	tt.domains[key] = domainView{topology.Epoch(), values}
}

// checkLog has the readers read, and checks that the log is neither too short nor too long.
func (tt *twinTest) checkLog() {
	changes, ok := tt.snapshot.Log().Since(tt.end)
	tt.end = tt.snapshot.Log().End()
	if ok && tt.quietly && len(changes) > 0 {
		tt.Errorf("entries though nothing has changed: %v", changes)
	}
	if ok && tt.quietly && len(tt.ops) > 0 {
		tt.hits["silent refresh"]++
	}
	for _, change := range changes {
		if change.Kind == NodeObject && tt.cache.feed.limit < maxJournal {
			tt.hits["rebuilt"]++
		}
	}
	tt.reader.read(tt.snapshot)
	if diff := tt.reader.diff(tt.snapshot); diff != "" {
		tt.Errorf("what is known by the log alone is not what the snapshot shows:\n%s", diff)
	}
	if tt.random.IntN(20) == 0 {
		if tt.random.IntN(4) == 0 {
			tt.snapshot.log.cut()
		}
		if tt.lagging.read(tt.snapshot) {
			tt.hits["lagging reader kept up"]++
		} else {
			tt.hits["lagging reader fell off"]++
		}
		if diff := tt.lagging.diff(tt.snapshot); diff != "" {
			tt.Errorf("a reader that reads now and then knows something else than the snapshot shows:\n%s", diff)
		}
	}
}

// logReader knows of each slot what a node-local plugin may go by, and learns of changes by the log alone.
type logReader struct {
	pos   uint64
	views map[Slot]string
}

func newLogReader() *logReader { return &logReader{views: map[Slot]string{}} }

// read takes in what was logged; it is false if the reader had to start over.
func (r *logReader) read(s *Snapshot) bool {
	changes, ok := s.Log().Since(r.pos)
	r.pos = s.Log().End()
	if !ok {
		clear(r.views)
		for slot := range s.Slots() {
			r.look(s, Slot(slot))
		}
		return false
	}
	for _, change := range changes {
		if change.Kind == NodeRemoved {
			delete(r.views, change.Slot)
			continue
		}
		r.look(s, change.Slot)
	}
	return true
}

func (r *logReader) look(s *Snapshot, slot Slot) {
	if s.Alive(slot) {
		r.views[slot] = lastingView(s.Info(slot))
	}
}

func (r *logReader) diff(s *Snapshot) string {
	var diff strings.Builder
	for slot := range s.Slots() {
		want := ""
		if s.Alive(Slot(slot)) {
			want = lastingView(s.Info(Slot(slot)))
		}
		if got := r.views[Slot(slot)]; got != want {
			fmt.Fprintf(&diff, "slot %d: got %s\n want %s\n", slot, got, want)
		}
	}
	return diff.String()
}

// lastingView is what may not change without an entry in the log.
func lastingView(info *schedframework.NodeInfo) string {
	node := info.Node()
	pods := []string{}
	for _, p := range info.Pods {
		pod := p.GetPod()
		pods = append(pods, fmt.Sprint(pod.UID, pod.Labels, pod.DeletionTimestamp != nil, pod.Spec.NodeName, *p.CalculateResource().Resource.(*schedframework.Resource)))
	}
	slices.Sort(pods)
	images := imageCounts(info)
	for name := range images {
		images[name] = 0 // the counts have an epoch of their own
	}
	return fmt.Sprint(node.Name, node.Labels, node.Spec.Taints, images, *info.Requested, *info.NonZeroRequested, *info.Allocatable,
		info.UsedPorts, info.PVCRefCounts, len(info.PodsWithAffinity), len(info.PodsWithRequiredAntiAffinity), info.Generation, pods)
}
