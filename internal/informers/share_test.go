// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/test/workload"
)

// cross makes a pod of which each part comes from one of the others.
func cross(random *rand.Rand, of []*corev1.Pod) *corev1.Pod {
	one := func() *corev1.Pod { return of[random.IntN(len(of))].DeepCopy() }
	pod := one()
	pod.Labels, pod.Annotations, pod.OwnerReferences = one().Labels, one().Annotations, one().OwnerReferences
	pod.Spec = one().Spec
	pod.Spec.Containers, pod.Spec.InitContainers, pod.Spec.Volumes = one().Spec.Containers, one().Spec.InitContainers, one().Spec.Volumes
	pod.Spec.Affinity, pod.Spec.Tolerations = one().Spec.Affinity, one().Spec.Tolerations
	pod.Spec.TopologySpreadConstraints = one().Spec.TopologySpreadConstraints
	pod.Status = one().Status
	pod.Status.ContainerStatuses = one().Status.ContainerStatuses
	pod.Spec.NodeName = fmt.Sprint("node-", random.IntN(10))
	return pod
}

func TestPodsThatShareStayWhatTheyAre(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var templates []*corev1.Pod
	for range 6 {
		templates = append(templates, randomPod(random))
	}
	for name, limit := range map[string]int{"all that came before": 1000, "a few that came before": 2} {
		t.Run("with "+name, func(t *testing.T) {
			shared := newSharer(limit, true)
			var want, got []*corev1.Pod
			specs := map[*corev1.Container]int{}
			for range 300 {
				pod := cross(random, templates)
				want = append(want, pod.DeepCopy())
				shared.sharePod(pod)
				got = append(got, pod)
				specs[unsafe.SliceData(pod.Spec.Containers)]++
			}
			for round := range 2 { // what has been shared may be shared again
				for i := range got {
					if !apiequality.Semantic.DeepEqual(want[i], got[i]) {
						t.Fatalf("round %d, pod %d is not what it was:\n%s", round, i, cmp.Diff(want[i], got[i]))
					}
					shared.sharePod(got[i])
				}
			}
			if limit > len(templates) && len(specs) > len(templates) {
				t.Errorf("300 pods of %d templates have %d lists of containers", len(templates), len(specs))
			}
		})
	}
}

func TestWhoAppendsToASharedPartGetsACopy(t *testing.T) {
	transform := NewTransform(true)
	var pods []*corev1.Pod
	for i := range 2 {
		whole := workload.Run(workload.Pods{Kind: workload.Spread, Series: 1}.Pod(i), i, "node")
		whole.Spec.Tolerations = append(whole.Spec.Tolerations, corev1.Toleration{Key: "third"}) // for which a decoder makes room for four
		pod := &corev1.Pod{}
		if err := decode(whole, pod); err != nil {
			t.Fatal(err)
		}
		if _, err := transform(pod); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	a, b := pods[0], pods[1]
	if &a.Spec.Tolerations[0] != &b.Spec.Tolerations[0] {
		t.Fatal("two pods of a kind have tolerations of their own")
	}
	mine := append(a.Spec.Tolerations, corev1.Toleration{Key: "mine"})
	other := append(b.Spec.Tolerations, corev1.Toleration{Key: "other"})
	if last := len(mine) - 1; mine[last].Key != "mine" || other[last].Key != "other" {
		t.Errorf("appended %v and %v", mine[last], other[last])
	}
}

func TestNodesThatShareStayWhatTheyAre(t *testing.T) {
	shared := newSharer(100, true)
	random := rand.New(rand.NewPCG(3, 0))
	images := func(from int) (images []corev1.ContainerImage) {
		for i := from; i < from+3; i++ {
			images = append(images, corev1.ContainerImage{Names: []string{fmt.Sprint("image-", i), fmt.Sprint("image@", i)}, SizeBytes: int64(i)})
		}
		return images
	}
	var want, got []*corev1.Node
	for i := range 30 {
		node := workload.Node(i)
		fillerOf(random, 0.3, 1, 3).Fill(&node.Status.Conditions)
		fillerOf(random, 0, 1, 1).Fill(&node.Status.NodeInfo)
		node.Status.Images = images(i % 4)
		if i%5 == 0 {
			node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("3")
		}
		want = append(want, node.DeepCopy())
		shared.shareNode(node)
		got = append(got, node)
	}
	names := map[*string]bool{}
	for i := range got {
		if !apiequality.Semantic.DeepEqual(want[i], got[i]) {
			t.Errorf("node %d is not what it was:\n%s", i, cmp.Diff(want[i], got[i]))
		}
		for _, image := range got[i].Status.Images {
			names[unsafe.SliceData(image.Names)] = true
		}
	}
	if len(names) != 6 {
		t.Errorf("the names of 6 images are at %d places", len(names))
	}
}

func TestPartsThatOnlyReadTheSameAreNotShared(t *testing.T) {
	shared := newSharer(10, true)
	labels := func(m map[string]string) map[string]string {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: m}}
		shared.sharePod(pod)
		return pod.Labels
	}
	labels(map[string]string{"a": "bc"})
	if got, want := labels(map[string]string{"ab": "c"}), (map[string]string{"ab": "c"}); !maps.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
	images := func(names ...string) []string {
		node := &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: names}}}}
		shared.shareNode(node)
		return node.Status.Images[0].Names
	}
	images("a", "b")
	if got := images("ab"); len(got) != 1 {
		t.Errorf("names %q, want ab", got)
	}
}

// TestInformersMayShareWhileOthersRead is for the race detector: pods come, also again, while those
// before are read.
func TestInformersMayShareWhileOthersRead(t *testing.T) {
	transform := NewTransform(true)
	var listing sync.WaitGroup
	for range 3 {
		listing.Go(func() {
			random := rand.New(rand.NewPCG(4, 0)) // the same for all
			for range 30 {
				pod := randomPod(random)
				for range 2 {
					if _, err := transform(pod); err != nil {
						t.Error(err)
					}
				}
				if copied := pod.DeepCopy(); copied.Spec.NodeName != "node" {
					t.Errorf("the pod is on %q", copied.Spec.NodeName)
				}
			}
		})
	}
	listing.Wait()
}

func TestAMemoForgetsWhatWasNotAskedForLongest(t *testing.T) {
	m := newMemo[int](10)
	key := func(i int) []byte { return fmt.Append(nil, i) }
	for i := range 1000 {
		m.put(key(i), i)
		if v, ok := m.get(key(0)); !ok || v != 0 {
			t.Fatalf("after %d: what was asked for all the time is forgotten", i)
		}
		if n := len(m.young) + len(m.old); n > 20 {
			t.Fatalf("%d values are kept, of 20 at most", n)
		}
	}
	if _, ok := m.get(key(500)); ok {
		t.Error("what nobody asked for is still there")
	}
	if v, ok := m.get(key(999)); !ok || v != 999 {
		t.Error("the latest value is forgotten")
	}
}

// TestNothingIsRememberedOfPodsThatCannotShareIt would else keep the containers of pods that are
// gone.
func TestNothingIsRememberedOfPodsThatCannotShareIt(t *testing.T) {
	shared := newSharer(100, false)
	for i := range 10 {
		shared.sharePod(workload.Run(workload.Pods{Kind: workload.Mixed, Series: 1}.Pod(i), i, "node"))
	}
	if n := len(shared.containers.young) + len(shared.volumes.young) + len(shared.statuses.young); n != 0 {
		t.Errorf("%d parts of pods that are not trimmed are remembered", n)
	}
	if len(shared.specs.young) != 1 || len(shared.owners.young) != 4 {
		t.Errorf("%d specs and %d owners, of 10 pods of 4 owners", len(shared.specs.young), len(shared.owners.young))
	}
}

// TestABoundPodTakesAFifthOfWhatItDid measures pods as they come from the API server, each with
// memory of its own.
func TestABoundPodTakesAFifthOfWhatItDid(t *testing.T) {
	whole := bytesPerPod(t, func(obj any) (any, error) { return obj, nil })
	untrimmed := bytesPerPod(t, NewTransform(false))
	trimmed := bytesPerPod(t, NewTransform(true))
	t.Logf("a pod takes %d bytes, %d when pods share, %d when trimmed as well", whole, untrimmed, trimmed)
	if trimmed > 2200 || trimmed*5 > whole {
		t.Errorf("a trimmed pod takes %d bytes, a whole one %d", trimmed, whole)
	}
	if untrimmed > whole*9/10 {
		t.Errorf("a pod that shares takes %d bytes, one that does not %d", untrimmed, whole)
	}
}

func bytesPerPod(t *testing.T, transform func(any) (any, error)) int {
	const pods = 4000
	from := workload.Pods{Kind: workload.Mixed, Series: pods / 100}
	live := func() int {
		runtime.GC()
		runtime.GC() // what has a finalizer, or is in a pool, goes with the second
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	kept := make([]any, pods)
	before := live()
	for i := range kept {
		pod := &corev1.Pod{}
		if err := decode(workload.Run(from.Pod(i), i, workload.NodeName(i)), pod); err != nil {
			t.Fatal(err)
		}
		var err error
		if kept[i], err = transform(pod); err != nil {
			t.Fatal(err)
		}
	}
	took := live() - before
	runtime.KeepAlive(kept)
	runtime.KeepAlive(transform)
	return took / pods
}

// decode makes to a copy of from, as a client makes it from the API server's answer.
func decode(from, to *corev1.Pod) error {
	bytes, err := from.Marshal()
	if err != nil {
		return err
	}
	return to.Unmarshal(bytes)
}

// BenchmarkTransform is what a bound pod costs when it comes from the API server, besides decoding
// it.
func BenchmarkTransform(b *testing.B) {
	transform := NewTransform(true)
	from := workload.Pods{Kind: workload.Mixed, Series: 40}
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		pod := workload.Run(from.Pod(i), i, workload.NodeName(i%1000))
		b.StartTimer()
		if _, err := transform(pod); err != nil {
			b.Fatal(err)
		}
	}
}
