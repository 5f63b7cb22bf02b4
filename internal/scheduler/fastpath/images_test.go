// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// imageWorld is a random cluster of nodes that pull and remove images.
type imageWorld struct {
	*testing.T
	*rand.Rand
	cache    *cache.Cache
	snapshot *cache.Snapshot
	nodes    []*corev1.Node
	made     int
	plugin   fwk.ScorePlugin
	setup    *setup
	plan     *Plan
	pods     []*corev1.Pod
}

// snapshotHandle is a handle of which ImageLocality uses the snapshot alone.
type snapshotHandle struct {
	fwk.Handle
	snapshot *cache.Snapshot
}

func (h snapshotHandle) SnapshotSharedLister() fwk.SharedLister { return h.snapshot }

func newImageWorld(t *testing.T, seed uint64) *imageWorld {
	w := &imageWorld{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), cache: cache.New(), snapshot: cache.NewSnapshot()}
	pl, err := imagelocality.New(t.Context(), nil, snapshotHandle{snapshot: w.snapshot})
	if err != nil {
		t.Fatal(err)
	}
	w.plugin = pl.(fwk.ScorePlugin)
	w.plan = &Plan{rowPlan: rowPlan{imageWeight: 3}}
	w.setup = newSetup(w.plan)
	for range 40 {
		w.pods = append(w.pods, w.pod())
	}
	for range 12 {
		w.addNode()
	}
	return w
}

// image returns one of a few images. Some are pulled by few nodes, and some are named without a
// tag.
func (w *imageWorld) image() string {
	return []string{"a:1", "a:2", "b:1", "c", "host:5000/d", "host:5000/d:1", "e@sha256:12", "f:1", "g", "h:1", "i:1",
		"j:1", "k:1", "rare:1", "never:1", ""}[w.IntN(16)]
}

// pull sets the images of a node.
func (w *imageWorld) pull(node *corev1.Node) {
	node.Status.Images = nil
	for range w.IntN(14) {
		image := w.image()
		if image == "never:1" || image == "rare:1" && w.IntN(8) > 0 {
			continue
		}
		names := []string{reportedName(image)}
		if w.IntN(4) == 0 {
			names = append(names, "z:1", names[0]) // more than one name, or one twice
		}
		size := w.Int64N(1 << 30)
		switch w.IntN(20) {
		case 0:
			size = w.Int64N(20 << 30)
		case 1:
			size = []int64{0, 1 << 20, 23 << 20, 1 << 62, -9 << 30}[w.IntN(5)]
		}
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: names, SizeBytes: size})
	}
}

func (w *imageWorld) pod() *corev1.Pod {
	pod := &corev1.Pod{}
	for range 1 + w.IntN(4) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Image: w.image()})
	}
	if w.IntN(10) == 0 { // more images than buckets have parts for
		for range 20 {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Image: w.image()})
		}
	}
	for range w.IntN(3) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Image: w.image()})
	}
	for range w.IntN(2) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: w.image()}}}, corev1.Volume{VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return pod
}

func (w *imageWorld) addNode() {
	node := realNode(w.made)
	w.made++
	w.pull(node)
	w.nodes = append(w.nodes, node)
	w.cache.AddNode(logr.Discard(), node)
}

// happen changes the cluster.
func (w *imageWorld) happen() {
	i := w.IntN(len(w.nodes))
	switch w.IntN(8) {
	case 0:
		w.addNode()
	case 1:
		if len(w.nodes) > 3 {
			if err := w.cache.RemoveNode(logr.Discard(), w.nodes[i]); err != nil {
				w.Fatal(err)
			}
			w.nodes[i] = w.nodes[len(w.nodes)-1]
			w.nodes = w.nodes[:len(w.nodes)-1]
		}
	case 2: // the log gets a gap
		w.must(cache.New().UpdateSnapshot(logr.Discard(), w.snapshot))
	default:
		changed := w.nodes[i].DeepCopy()
		w.pull(changed)
		w.cache.UpdateNode(logr.Discard(), w.nodes[i], changed)
		w.nodes[i] = changed
	}
}

func (w *imageWorld) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// score returns the plugin's score of a node for a pod, weighted.
func (w *imageWorld) score(pod *corev1.Pod, node *schedframework.NodeInfo) int64 {
	score, status := w.plugin.Score(w.Context(), schedframework.NewCycleState(), pod, node)
	if !status.IsSuccess() {
		w.Fatal(status)
	}
	return score * w.setup.imageWeight
}

// TestImageScoresMatchThePlugin compares with the plugin what is kept for the images in the key of
// a pod, whose key changes as nodes pull and remove images.
func TestImageScoresMatchThePlugin(t *testing.T) {
	scored, changed, most := 0, 0, 0
	for seed := range uint64(10) {
		w := newImageWorld(t, seed)
		last := map[int]string{}
		for step := range 400 {
			for range w.IntN(4) {
				w.happen()
			}
			w.must(w.cache.UpdateSnapshot(logr.Discard(), w.snapshot))
			for range 3 {
				n := w.IntN(len(w.pods))
				pod := w.pods[n]
				var key keyWriter
				key.local(w.plan, pod, w.snapshot)
				part := string(key.imagesPart())
				if last[n] != "" && last[n] != part {
					changed++
				}
				last[n] = part
				column := w.setup.holdImages(key.imagesPart(), &key.images)
				if column != nil {
					column.sync(&refresher{snapshot: w.snapshot})
					most = max(most, len(column.numbers))
					if len(column.kinds) > w.snapshot.Slots()+1 {
						t.Fatalf("seed %d, step %d: %d kinds of %d nodes", seed, step, len(column.kinds),
							w.snapshot.Slots())
					}
				}
				for slot := range w.snapshot.Slots() {
					info := w.snapshot.Info(cache.Slot(slot))
					if info == nil {
						continue
					}
					var got int64
					if column != nil {
						got = column.of(cache.Slot(slot))
						scored++
					}
					if want := w.score(pod, info); got != want {
						t.Fatalf("seed %d, step %d, pod %s on %s: %d, want %d (column %+v)", seed, step,
							imagesText(pod), info.Node().Name, got, want, column)
					}
				}
			}
		}
	}
	if scored < 10_000 || changed < 500 || most <= 2*maxParts {
		t.Errorf("%d scores were kept, %d keys changed, there were at most %d kinds", scored, changed, most)
	}
}

func imagesText(pod *corev1.Pod) string {
	var w strings.Builder
	for _, c := range append(pod.Spec.Containers, pod.Spec.InitContainers...) {
		fmt.Fprintf(&w, "%q ", c.Image)
	}
	return w.String()
}

// TestImageScoresAreWithoutError compares the arithmetic with the plugin's for any numbers.
func TestImageScoresAreWithoutError(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	c := cache.New()
	snapshot := cache.NewSnapshot()
	nodes := 0
	pl, err := imagelocality.New(t.Context(), nil, snapshotHandle{snapshot: snapshot})
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		for range 1 + r.IntN(9) {
			c.AddNode(logr.Discard(), realNode(nodes))
			nodes++
		}
		if err := c.UpdateSnapshot(logr.Discard(), snapshot); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			pod, info := &corev1.Pod{}, schedframework.NewNodeInfo()
			info.ImageStates = map[string]*fwk.ImageStateSummary{}
			var sum int64
			sources := 1 + r.IntN(5)
			for i := range sources {
				name := fmt.Sprintf("a:%d", i)
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Image: name})
				state := &fwk.ImageStateSummary{Size: r.Int64N(4 << 30), NumNodes: 1 + r.IntN(nodes)}
				info.ImageStates[name] = state
				sum += scaledSize(state.Size, state.NumNodes, nodes)
			}
			want, status := pl.(fwk.ScorePlugin).Score(t.Context(), nil, pod, info)
			if got := imageScore(sum, sources); !status.IsSuccess() || got != want {
				t.Fatalf("%d sources, a sum of %d: %d, want %d (%v)", sources, sum, got, want, status)
			}
		}
	}
}
