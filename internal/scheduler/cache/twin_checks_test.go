// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// refresh updates the snapshot and checks everything.
func (tt *twinTest) refresh() {
	if err := tt.cache.UpdateSnapshot(quiet, tt.snapshot); err != nil {
		tt.Fatal(err)
	}
	tt.checkCache()
	tt.checkSnapshot()
	scratch := NewSnapshot()
	tt.must(tt.cache.UpdateSnapshot(quiet, scratch))
	if diff := diffSnapshots(scratch, tt.snapshot); diff != "" {
		tt.Errorf("a snapshot made from scratch differs:\n%s", diff)
	}
	if tt.random.IntN(3) == 0 {
		tt.checkDump()
	}
}

// checkSnapshot checks what the snapshot shows.
func (tt *twinTest) checkSnapshot() {
	tt.checkLog()
	tt.checkNodes()
	tt.checkLists()
	for _, key := range twinKeys {
		tt.checkTopology(key)
	}
	tt.checkSignatures()
	tt.checkVersions()
}

func (tt *twinTest) checkCache() {
	for uid, p := range tt.twin.pods {
		if got, err := tt.cache.GetPod(p.pod); err != nil || got != p.pod {
			tt.Errorf("GetPod %s: got %p, %v, want %p", uid, got, err, p.pod)
		}
		if got, err := tt.cache.IsAssumedPod(p.pod); err != nil || got != p.assumed {
			tt.Errorf("IsAssumedPod %s: got %v, %v, want %v", uid, got, err, p.assumed)
		}
	}
	if got, want := tt.cache.Size(), tt.twin.size(); got != want {
		tt.Errorf("size: got %+v, want %+v", got, want)
	}
}

func (tt *twinTest) checkDump() {
	dump := tt.cache.Dump()
	for name, info := range dump.Nodes {
		var obj *corev1.Node
		if n := tt.twin.nodes[name]; n != nil {
			obj = n.obj
		}
		pods := tt.twin.podsThat(func(p *twinPod) bool { return p.pod.Spec.NodeName == name })
		if diff := diffNodeInfos(scratch(obj, pods), info); diff != "" {
			tt.Errorf("dump of node %s (-want +got):\n%s", name, diff)
		}
	}
	if len(dump.Nodes) != tt.cache.Size().Nodes || len(dump.AssumedPods) != tt.cache.assumed {
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
		if !tt.trying {
			tt.checkOrderOfPods(name, info)
		}
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

// checkOrderOfPods checks that the cache's list of pods has the order of the NodeInfo's, as the
// cache assumes.
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
	lowest := int32(math.MaxInt32)
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
		for _, pod := range info.Pods {
			lowest = min(lowest, ptr.Deref(pod.GetPod().Spec.Priority, 0))
		}
		slot, _ := tt.snapshot.SlotOf(name)
		if tt.snapshot.WithAffinity().Has(slot) != (len(info.PodsWithAffinity) > 0) {
			tt.Errorf("set of nodes with affinity is wrong about %s", name)
		}
		if tt.snapshot.withRequiredAntiAffinity.Has(slot) != (len(info.PodsWithRequiredAntiAffinity) > 0) {
			tt.Errorf("set of nodes with required anti-affinity is wrong about %s", name)
		}
	}
	if tt.snapshot.WithAffinity().Len() != len(affinity) ||
		tt.snapshot.withRequiredAntiAffinity.Len() != len(antiAffinity) {
		tt.Error("a set of nodes has dead slots")
	}
	for what, lists := range map[string][2][]string{
		"List":                     {order, nodeNames(tt.T, tt.snapshot.List)},
		"HavePodsWithAffinityList": {affinity, nodeNames(tt.T, tt.snapshot.HavePodsWithAffinityList)},
		"HavePodsWithRequiredAntiAffinityList": {antiAffinity,
			nodeNames(tt.T, tt.snapshot.HavePodsWithRequiredAntiAffinityList)},
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
	for priority := range int32(4) {
		if got := tt.snapshot.HasPodsBelow(priority); got != (lowest < priority) {
			tt.Errorf("HasPodsBelow(%d): got %v, the lowest is %d", priority, got, lowest)
		}
	}
}

// checkVersions expects that a version identifies one node with the same pods.
func (tt *twinTest) checkVersions() {
	for name, slot := range tt.snapshot.slots {
		info := tt.snapshot.Info(slot)
		var pods []string
		for _, pod := range info.GetPods() {
			pods = append(pods, fmt.Sprintf("%p", pod.GetPod()))
		}
		slices.Sort(pods)
		node := info.Node()
		shown := fmt.Sprint(name, pods, node.Labels, node.Spec, node.Status.Allocatable)
		version := tt.snapshot.Version(slot)
		if before, ok := tt.versions[version]; ok && before != shown {
			tt.Errorf("version %d of slot %d is of\n%s, and was of\n%s", version, slot, shown, before)
		}
		tt.versions[version] = shown
	}
}

func (tt *twinTest) checkTopology(key string) {
	topology := tt.snapshot.Topo(key)
	domains := topology.Domains()
	if len(domains) != tt.snapshot.Slots() {
		tt.Fatalf("topology %s has %d slots of %d", key, len(domains), tt.snapshot.Slots())
	}
	values, nodes := map[int]string{}, map[string]int{}
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
		if int(topology.domains[domain].nodes) != nodes[value] {
			tt.Errorf("topology %s: %d nodes in %q, want %d", key, topology.domains[domain].nodes, value, nodes[value])
		}
	}
	if len(topology.ids) != len(nodes) {
		tt.Errorf("topology %s: %d domains with %v", key, len(topology.ids), nodes)
	}
	for value, domain := range numbers {
		large := topology.Large(domain)
		if n := nodes[value]; n > maxSmall && !large || n <= minLarge && large {
			tt.Errorf("topology %s: %q with %d nodes is large: %v", key, value, n, large)
		}
		listed := topology.AppendMembers(nil, domain)
		for _, slot := range listed {
			if domains[slot] != domain {
				tt.Errorf("topology %s: slot %d is listed in domain %d, it is in %d", key, slot, domain, domains[slot])
			}
		}
		slices.Sort(listed)
		if len(slices.Compact(listed)) != nodes[value] {
			tt.Errorf("topology %s: %v are listed in %q, which has %d nodes", key, listed, value, nodes[value])
		}
	}
	before, ok := tt.domains[key]
	moved := false
	for life, value := range values {
		if was, ok := before[life]; ok && was != value {
			moved = true
		}
	}
	if ok && moved {
		tt.hits["domain moved"]++
	}
	tt.domains[key] = values
}

// checkLog updates the readers, and checks that the log is neither too short nor too long.
func (tt *twinTest) checkLog() {
	changes, ok := tt.snapshot.Log().Since(tt.end)
	tt.end = tt.snapshot.Log().End()
	// With a short journal a few operations exceed it, and nodes are logged as they are, changed or
	// not.
	if ok && tt.quietly && len(changes) > 0 && tt.cache.feed.limit == maxJournal {
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

// logReader knows everything that a node-local plugin may depend on, by slot, and learns of changes
// only from the log.
type logReader struct {
	pos   uint64
	views map[Slot]string
}

func newLogReader() *logReader { return &logReader{views: map[Slot]string{}} }

// read applies the new log entries; it returns false if the reader had to start over.
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

// lastingView returns everything that must not change without a log entry.
func lastingView(info *schedframework.NodeInfo) string {
	node := info.Node()
	pods := []string{}
	for _, p := range info.Pods {
		pod := p.GetPod()
		pods = append(pods, fmt.Sprint(pod.UID, pod.Labels, pod.DeletionTimestamp != nil, pod.Spec.NodeName,
			*p.CalculateResource().Resource.(*schedframework.Resource)))
	}
	slices.Sort(pods)
	images := imageCounts(info)
	for name := range images {
		images[name] = 0 // the counts have their own epoch
	}
	return fmt.Sprint(node.Name, node.Labels, node.Spec.Taints, images, *info.Requested, *info.NonZeroRequested,
		*info.Allocatable,
		info.UsedPorts, info.PVCRefCounts, len(info.PodsWithAffinity), len(info.PodsWithRequiredAntiAffinity),
		info.Generation, pods)
}
