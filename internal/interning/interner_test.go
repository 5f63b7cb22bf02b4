// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

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

// mix returns a pod whose parts each come from a random template.
func mix(random *rand.Rand, templates []*corev1.Pod) *corev1.Pod {
	one := func() *corev1.Pod { return templates[random.IntN(len(templates))].DeepCopy() }
	pod := one()
	pod.Labels, pod.Annotations, pod.OwnerReferences = one().Labels, one().Annotations, one().OwnerReferences
	pod.Spec = one().Spec
	pod.Spec.Containers, pod.Spec.InitContainers, pod.Spec.Volumes = one().Spec.Containers, one().Spec.InitContainers,
		one().Spec.Volumes
	pod.Spec.Affinity, pod.Spec.Tolerations = one().Spec.Affinity, one().Spec.Tolerations
	pod.Spec.TopologySpreadConstraints = one().Spec.TopologySpreadConstraints
	pod.Status = one().Status
	pod.Status.ContainerStatuses = one().Status.ContainerStatuses
	pod.Spec.NodeName = fmt.Sprint("node-", random.IntN(10))
	return pod
}

func TestInterningDoesNotChangeWhatAPodContains(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var templates []*corev1.Pod
	for range 6 {
		templates = append(templates, randomPod(random))
	}
	for name, limit := range map[string]int{"with all earlier parts": 1000, "with a few earlier parts": 2} {
		t.Run(name, func(t *testing.T) {
			parts := newInterner(limits{limit, 1 << 20}, true)
			var want, got []*corev1.Pod
			specs := map[*corev1.Container]int{}
			for range 300 {
				pod := mix(random, templates)
				want = append(want, pod.DeepCopy())
				parts.internPod(pod)
				got = append(got, pod)
				specs[unsafe.SliceData(pod.Spec.Containers)]++
			}
			for round := range 2 { // interning a pod again does not change it, either
				for i := range got {
					if !apiequality.Semantic.DeepEqual(want[i], got[i]) {
						t.Fatalf("round %d: pod %d has changed:\n%s", round, i, cmp.Diff(want[i], got[i]))
					}
					parts.internPod(got[i])
				}
			}
			if limit > len(templates) && len(specs) > len(templates) {
				t.Errorf("300 pods of %d templates have %d container slices", len(templates), len(specs))
			}
		})
	}
}

func TestAppendingToASharedSliceCopiesIt(t *testing.T) {
	transform := NewTransform(true)
	var pods []*corev1.Pod
	for i := range 2 {
		whole := workload.Run(workload.Pods{Kind: workload.Spread, Series: 1}.Pod(i), i, "node")
		// a decoder makes room for four
		whole.Spec.Tolerations = append(whole.Spec.Tolerations, corev1.Toleration{Key: "third"})
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
		t.Fatal("two pods with equal tolerations do not share them")
	}
	mine := append(a.Spec.Tolerations, corev1.Toleration{Key: "mine"})
	other := append(b.Spec.Tolerations, corev1.Toleration{Key: "other"})
	if last := len(mine) - 1; mine[last].Key != "mine" || other[last].Key != "other" {
		t.Errorf("appended %v and %v", mine[last], other[last])
	}
}

func TestInterningDoesNotChangeWhatANodeContains(t *testing.T) {
	parts := newInterner(limits{100, 1 << 20}, true)
	random := rand.New(rand.NewPCG(3, 0))
	images := func(from int) (images []corev1.ContainerImage) {
		for i := from; i < from+3; i++ {
			images = append(images,
				corev1.ContainerImage{Names: []string{fmt.Sprint("image-", i), fmt.Sprint("image@", i)},
					SizeBytes: int64(i)})
		}
		return images
	}
	var want, got []*corev1.Node
	for i := range 30 {
		node := workload.Node(i)
		newFiller(random, 0.3, 1, 3).Fill(&node.Status.Conditions)
		newFiller(random, 0, 1, 1).Fill(&node.Status.NodeInfo)
		node.Status.Images = images(i % 4)
		if i%5 == 0 {
			node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("3")
		}
		want = append(want, node.DeepCopy())
		parts.internNode(node)
		got = append(got, node)
	}
	names := map[*string]bool{}
	for i := range got {
		if !apiequality.Semantic.DeepEqual(want[i], got[i]) {
			t.Errorf("node %d has changed:\n%s", i, cmp.Diff(want[i], got[i]))
		}
		for _, image := range got[i].Status.Images {
			names[unsafe.SliceData(image.Names)] = true
		}
	}
	if len(names) != 6 {
		t.Errorf("the names of 6 images are kept %d times", len(names))
	}
}

func TestPartsWithTheSameConcatenationAreNotShared(t *testing.T) {
	parts := newInterner(limits{10, 1 << 20}, true)
	labels := func(m map[string]string) map[string]string {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: m}}
		parts.internPod(pod)
		return pod.Labels
	}
	labels(map[string]string{"a": "bc"})
	if got, want := labels(map[string]string{"ab": "c"}), (map[string]string{"ab": "c"}); !maps.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
	images := func(names ...string) []string {
		node := &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: names}}}}
		parts.internNode(node)
		return node.Status.Images[0].Names
	}
	images("a", "b")
	if got := images("ab"); len(got) != 1 {
		t.Errorf("names %q, want ab", got)
	}
}

// TestPodsCanBeReadWhileOthersAreTransformed is for the race detector: goroutines transform pods,
// each twice, while others read pods that share their parts.
func TestPodsCanBeReadWhileOthersAreTransformed(t *testing.T) {
	transform := NewTransform(true)
	var listing sync.WaitGroup
	for range 3 {
		listing.Go(func() {
			random := rand.New(rand.NewPCG(4, 0)) // all goroutines get the same pods
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

// TestPartsThatAreUniqueToUntrimmedPodsAreNotRemembered guards against keeping the containers of
// deleted pods.
func TestPartsThatAreUniqueToUntrimmedPodsAreNotRemembered(t *testing.T) {
	parts := newInterner(limits{100, 1 << 20}, false)
	for i := range 10 {
		parts.internPod(workload.Run(workload.Pods{Kind: workload.Mixed, Series: 1}.Pod(i), i, "node"))
	}
	if n := len(parts.containers.young) + len(parts.volumes.young) + len(parts.statuses.young); n != 0 {
		t.Errorf("%d unique parts of untrimmed pods are remembered", n)
	}
	if len(parts.specs.young) != 1 || len(parts.owners.young) != 4 {
		t.Errorf("%d specs and %d owners are remembered of 10 pods with 4 owners", len(parts.specs.young),
			len(parts.owners.young))
	}
}

// TestATransformedPodTakesAFifthOfTheMemory measures pods as decoded from the API server's answers,
// which share no memory.
func TestATransformedPodTakesAFifthOfTheMemory(t *testing.T) {
	whole := bytesPerPod(t, func(obj any) (any, error) { return obj, nil })
	untrimmed := bytesPerPod(t, NewTransform(false))
	trimmed := bytesPerPod(t, NewTransform(true))
	t.Logf("a pod takes %d bytes, %d with interning, %d with interning and trimming", whole, untrimmed, trimmed)
	if trimmed > 2200 || trimmed*5 > whole {
		t.Errorf("a trimmed pod takes %d bytes, a whole one %d", trimmed, whole)
	}
	if untrimmed > whole*9/10 {
		t.Errorf("an interned pod takes %d bytes, a whole one %d", untrimmed, whole)
	}
}

func bytesPerPod(t *testing.T, transform func(any) (any, error)) int {
	const pods = 4000
	from := workload.Pods{Kind: workload.Mixed, Series: pods / 100}
	live := func() int {
		runtime.GC()
		runtime.GC() // the second frees objects with finalizers and in pools
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

// decode copies from to to by way of the encoding, as a client decodes the API server's answer.
func decode(from, to *corev1.Pod) error {
	bytes, err := from.Marshal()
	if err != nil {
		return err
	}
	return to.Unmarshal(bytes)
}

// BenchmarkTransform measures the cost of a bound pod that arrives from the API server, without the
// cost of decoding it.
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
