// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/workload"
)

// Drivers of the devices in this test: what a device is decides what it takes from its node.
const (
	ofNode  = "cpus.example.com" // cores and memory of a node, mapped to what the node has
	ofAll   = "net.example.com"  // devices that any node reaches, with an overhead
	ofPlain = "gpu.example.com"  // devices on nodes, with an overhead or with nothing
)

// gpus is a resource that devices of ofPlain back where the node has none of it.
const gpus corev1.ResourceName = "example.com/gpu"

// TestDevices has nodes with devices, and devices that all nodes reach.
func TestDevices(t *testing.T) {
	testDevices(t, false, "placed", "on the fast path", "partial", "partial with gpus", "alternatives", "unplaced",
		"Insufficient", "left", "preempting")
}

// TestDevicesThatTakeFromNodes has the feature gate DRANodeAllocatableResources: claims take from
// the CPU, memory and huge pages of nodes.
func TestDevicesThatTakeFromNodes(t *testing.T) {
	testDevices(t, true, "placed", "takes", "on the fast path", "partial", "partial with gpus", "alternatives",
		"unplaced", "Insufficient", "left", "preempting")
}

// testDevices plays random cases. The cases must show something of each kind.
func testDevices(t *testing.T, takeFromNodes bool, kinds ...string) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		kubefeatures.DRANodeAllocatableResources: takeFromNodes,
		// Without it, the plugin reads the slices that the test has filled in.
		kubefeatures.DRADeviceTaintRules: false,
	})
	first, cases := number(t, seedVariable, 0), number(t, casesVariable, defaultCases)
	if first > 0 {
		cases = 1
	}
	total := counts{}
	first = max(first, 1)
	for seed := first; seed < first+cases; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := newDeviceWorld(t, seed)
			defer w.close()
			w.play()
			total.add(w.count)
		})
	}
	t.Log(total)
	if cases < defaultCases || t.Failed() {
		return
	}
	for _, kind := range kinds {
		if total[kind] < int(cases)/4 {
			t.Errorf("the cases hardly show anything of the kind %q: %d in %d cases", kind, total[kind], cases)
		}
	}
}

// decisionsPerCase is how many pods are decided in a case.
const decisionsPerCase = 40

// spareOf returns the name of the claim that a pod gets for its gpus, in place of the one that
// PreBind would create.
func spareOf(pod string) string { return "spare-" + pod }

func requestsGPUs(pod *corev1.Pod) bool {
	return podfields.RequestsAny(pod, func(name corev1.ResourceName) bool { return name == gpus })
}

// deviceWorld is a random cluster with devices, seen by kube-scheduler and by livesched on both
// paths. All of them are told which node a pod got, and which devices.
type deviceWorld struct {
	*rand.Rand
	deviceSides
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	count  counts
	nodes  []string
	claims []*resourcev1.ResourceClaim
	placed []*corev1.Pod
	// slices are those that there are, by name, and classes the device classes.
	slices  map[string]*resourcev1.ResourceSlice
	classes []*resourcev1.DeviceClass
	// gone are the names of nodes that were removed. Their slices are still there. added are the
	// nodes as they were added last.
	gone  []string
	added map[string]*corev1.Node
	// separate means that each device belongs to a single node, in most of the cluster's time.
	separate bool
}

func newDeviceWorld(t *testing.T, seed uint64) *deviceWorld {
	t.Helper()
	w := &deviceWorld{Rand: rand.New(rand.NewPCG(seed, 5517)), t: t, done: make(chan struct{}),
		count: counts{"cases": 1}, slices: map[string]*resourcev1.ResourceSlice{},
		added: map[string]*corev1.Node{}}
	w.separate = w.chance(70)
	for i := range 16 {
		w.claims = append(w.claims, w.newClaim(i))
	}
	all := slices.Clone(w.claims)
	for i := range decisionsPerCase {
		claim := objects.DeviceClaim(spareOf(podName(i)), ofPlain)
		claim.UID, claim.ResourceVersion = types.UID(claim.Name), "1"
		all = append(all, claim)
	}
	listed := make([]runtime.Object, len(all))
	for i, claim := range all {
		listed[i] = claim
	}
	w.deviceSides, w.cancel = newDeviceSides(t, listed)
	nodes := 3 + w.IntN(8)
	if w.chance(3) { // more than a search on the best nodes first looks at one by one
		nodes += 150
	}
	for i := range nodes {
		w.addNode(fmt.Sprintf("node-%d", i))
	}
	if !w.separate {
		w.putSlice(ofAll, nil)
	}
	w.must(w.objects.Put(workload.Service()))
	for _, driver := range []string{ofNode, ofAll, ofPlain} {
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver},
			Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
				Expression: fmt.Sprintf("device.driver == %q", driver)}}}}}
		if driver == ofPlain {
			class.Spec.ExtendedResourceName = ptr.To(string(gpus))
		}
		w.must(w.objects.Put(class))
		w.addClass(nil, class)
		w.classes = append(w.classes, class)
	}
	go func() {
		defer close(w.done)
		w.objects.Resource().V1().ResourceClaims().Informer().RunWithContext(w.ctx)
	}()
	w.awaitClaims(t, all)
	return w
}

func (w *deviceWorld) close() {
	w.cancel()
	<-w.done
	w.deviceSides.close()
}

func (w *deviceWorld) chance(percent int) bool { return w.IntN(100) < percent }

func (w *deviceWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// addNode adds a node with devices.
func (w *deviceWorld) addNode(name string) {
	w.addNodeObject(name)
	for _, driver := range []string{ofNode, ofPlain} {
		if w.chance(75) {
			w.putSlice(driver, &name)
		}
	}
}

func (w *deviceWorld) addNodeObject(name string) {
	labels := map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprint("zone-", w.IntN(3))}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(fmt.Sprint(2 + w.IntN(8))),
			corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dGi", 2+w.IntN(14))),
			corev1.ResourcePods:   resource.MustParse("20"),
		},
	}}
	if w.chance(20) {
		node.Status.Allocatable[gpus] = resource.MustParse("2")
	}
	if w.chance(60) {
		node.Status.Allocatable["hugepages-2Mi"] = resource.MustParse("1Gi")
	}
	node.Status.Capacity = node.Status.Allocatable
	w.nodes = append(w.nodes, name)
	w.added[name] = node
	w.theirs.Scheduler.Cache.AddNode(logr.Discard(), node)
	for _, side := range w.mine {
		side.Cache.AddNode(logr.Discard(), node)
	}
}

// exchangeNode removes a node without pods, and adds one that was removed before. Neither changes a
// device.
func (w *deviceWorld) exchangeNode() {
	at := w.IntN(len(w.nodes))
	name := w.nodes[at]
	if slices.ContainsFunc(w.placed, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == name }) {
		return
	}
	w.count["exchanges"]++
	node := w.added[name]
	w.must(w.theirs.Scheduler.Cache.RemoveNode(logr.Discard(), node))
	for _, side := range w.mine {
		w.must(side.Cache.RemoveNode(logr.Discard(), node))
	}
	w.nodes = slices.Delete(w.nodes, at, at+1)
	if len(w.gone) > 0 {
		i := w.IntN(len(w.gone))
		back := w.gone[i]
		w.gone = slices.Delete(w.gone, i, i+1)
		w.addNodeObject(back)
	}
	w.gone = append(w.gone, name)
}

func (w *deviceWorld) putSlice(driver string, node *string) {
	slice := w.newSlice(driver, node)
	w.slices[slice.Name] = slice
	w.must(w.objects.Put(slice))
}

// changeDevices replaces or removes a slice, or changes which devices are of a class.
func (w *deviceWorld) changeDevices() {
	w.count["device changes"]++
	switch n := w.IntN(10); {
	case n == 0:
		w.changeClass()
	case n == 1 && w.slices[ofAll+"-all"] == nil:
		w.putSlice(ofAll, nil)
	case n <= 2 && w.separate && w.slices[ofAll+"-all"] != nil:
		w.removeSlice(ofAll + "-all")
	case n <= 4 && len(w.nodes) > 2:
		w.exchangeNode()
	default:
		node, driver := w.nodes[w.IntN(len(w.nodes))], []string{ofNode, ofPlain}[w.IntN(2)]
		if w.slices[driver+"-"+node] != nil && w.chance(40) {
			w.removeSlice(driver + "-" + node)
			return
		}
		w.putSlice(driver, &node)
	}
}

func (w *deviceWorld) removeSlice(name string) {
	w.must(w.objects.Remove(w.slices[name]))
	delete(w.slices, name)
}

// changeClass makes a class have other devices.
func (w *deviceWorld) changeClass() {
	i := w.IntN(len(w.classes))
	class := w.classes[i].DeepCopy()
	selector := class.Spec.Selectors[0].CEL
	selector.Expression = fmt.Sprintf("device.driver == %q", class.Name)
	if w.chance(50) {
		selector.Expression += " && !device.allowMultipleAllocations"
	}
	w.must(w.objects.Put(class))
	w.addClass(w.classes[i], class)
	w.classes[i] = class
}

// newSlice returns the devices of a driver on a node, or on all nodes.
func (w *deviceWorld) newSlice(driver string, node *string) *resourcev1.ResourceSlice {
	pool := ptr.Deref(node, "all")
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + "-" + pool},
		Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: node,
			Pool: resourcev1.ResourcePool{Name: pool, ResourceSliceCount: 1}}}
	if node == nil {
		slice.Spec.AllNodes = ptr.To(true)
	}
	for i := range 2 + w.IntN(4) {
		device := resourcev1.Device{Name: fmt.Sprintf("device-%d", i)}
		if w.chance(10) {
			device.Taints = []resourcev1.DeviceTaint{{Key: "example.com/worn",
				Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		}
		switch {
		case driver == ofNode && w.chance(50):
			w.mapCapacity(&device)
		case driver == ofNode:
			device.NodeAllocatableResources = map[corev1.ResourceName]resourcev1.NodeAllocatableResource{
				corev1.ResourceCPU: {Mapping: &resourcev1.NodeAllocatableMapping{
					DeviceMultiplier: ptr.To(resource.MustParse([]string{"500m", "1", "2", "4"}[w.IntN(4)]))}},
			}
		case w.chance(80):
			w.addOverhead(&device)
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	return slice
}

// mapCapacity makes a device one of which claims take a share: each core of it is some CPU.
func (w *deviceWorld) mapCapacity(device *resourcev1.Device) {
	const cores = "cpus.example.com/cores"
	device.AllowMultipleAllocations = ptr.To(true)
	device.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{cores: {
		Value: resource.MustParse("8"), RequestPolicy: &resourcev1.CapacityRequestPolicy{
			Default:    ptr.To(resource.MustParse([]string{"1", "2"}[w.IntN(2)])),
			ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: ptr.To(resource.MustParse("1"))}},
	}}
	device.NodeAllocatableResources = map[corev1.ResourceName]resourcev1.NodeAllocatableResource{
		corev1.ResourceCPU: {Mapping: &resourcev1.NodeAllocatableMapping{
			CapacityKey:        ptr.To(resourcev1.QualifiedName(cores)),
			CapacityMultiplier: ptr.To(resource.MustParse([]string{"1", "2", "500m"}[w.IntN(3)]))}},
	}
}

func (w *deviceWorld) addOverhead(device *resourcev1.Device) {
	overhead := func(quantity string) *resourcev1.NodeAllocatableOverhead {
		o := &resourcev1.NodeAllocatableOverhead{}
		if w.chance(70) {
			o.PerPod = ptr.To(resource.MustParse(quantity))
		}
		if o.PerPod == nil || w.chance(40) {
			o.PerContainer = ptr.To(resource.MustParse(quantity))
		}
		return o
	}
	device.NodeAllocatableResources = map[corev1.ResourceName]resourcev1.NodeAllocatableResource{
		corev1.ResourceMemory: {Overhead: overhead([]string{"512Mi", "1Gi", "3Gi"}[w.IntN(3)])},
	}
	if w.chance(30) {
		device.NodeAllocatableResources["hugepages-2Mi"] = resourcev1.NodeAllocatableResource{
			Overhead: overhead("256Mi")}
	}
	if w.chance(30) {
		device.NodeAllocatableResources[corev1.ResourceCPU] = resourcev1.NodeAllocatableResource{
			Overhead: overhead("700m")}
	}
}

func (w *deviceWorld) newClaim(i int) *resourcev1.ResourceClaim {
	driver := []string{ofNode, ofNode, ofAll, ofPlain}[w.IntN(4)]
	if driver == ofAll && w.separate {
		driver = ofPlain
	}
	claim := objects.DeviceClaim(fmt.Sprintf("claim-%d", i), driver)
	claim.UID, claim.ResourceVersion = types.UID(claim.Name), "1"
	request := claim.Spec.Devices.Requests[0].Exactly
	request.AllocationMode, request.Count = resourcev1.DeviceAllocationModeExactCount, 1+w.Int64N(2)
	if w.chance(20) {
		request.Tolerations = []resourcev1.DeviceToleration{{Key: "example.com/worn",
			Operator: resourcev1.DeviceTolerationOpExists}}
	}
	if w.chance(25) {
		w.count["alternatives"]++
		alternative := func(name, class string) resourcev1.DeviceSubRequest {
			return resourcev1.DeviceSubRequest{Name: name, DeviceClassName: class, Count: 1,
				AllocationMode: resourcev1.DeviceAllocationModeExactCount}
		}
		alternatives := []resourcev1.DeviceSubRequest{
			alternative("best", []string{ofPlain, ofNode}[w.IntN(2)]), alternative("other", ofAll)}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "device", FirstAvailable: alternatives}}
	}
	return claim
}

// newPod returns a pod with up to two claims, which its containers use, or with none.
func (w *deviceWorld) newPod(i int) *corev1.Pod {
	name := podName(i)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{SchedulerName: schedulerName, Priority: ptr.To(w.Int32N(3))},
	}
	if w.chance(50) { // spread by default
		pod.Labels = workload.Service().Spec.Selector
	}
	for range []int{0, 1, 1, 1, 2}[w.IntN(5)] {
		claim := w.claims[w.IntN(len(w.claims))].Name
		if !slices.ContainsFunc(pod.Spec.ResourceClaims,
			func(c corev1.PodResourceClaim) bool { return c.Name == claim }) {
			objects.UsingDevices(claim)(pod)
		}
	}
	for j := range 1 + w.IntN(2) {
		container := corev1.Container{Name: fmt.Sprintf("container-%d", j)}
		if w.chance(75) {
			container.Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse([]string{"100m", "500m", "1"}[w.IntN(3)]),
				corev1.ResourceMemory: resource.MustParse([]string{"128Mi", "1Gi"}[w.IntN(2)]),
			}
		}
		for _, claim := range pod.Spec.ResourceClaims {
			if w.chance(70) {
				container.Resources.Claims = append(container.Resources.Claims, corev1.ResourceClaim{Name: claim.Name})
			}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	if len(pod.Spec.ResourceClaims) == 0 && w.chance(60) {
		container := &pod.Spec.Containers[w.IntN(len(pod.Spec.Containers))].Resources
		container.Limits = corev1.ResourceList{gpus: resource.MustParse([]string{"1", "2", "4"}[w.IntN(3)])}
		if container.Requests == nil {
			container.Requests = corev1.ResourceList{}
		}
		container.Requests[gpus] = container.Limits[gpus]
	}
	if w.chance(10) { // as DaemonSets make them
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
					Values: []string{w.nodes[w.IntN(len(w.nodes))]}}}}}}}}
	}
	if w.chance(15) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse([]string{"2", "4"}[w.IntN(2)])}}
	}
	takeFromNodes := utilfeature.DefaultFeatureGate.Enabled(kubefeatures.DRANodeAllocatableResources)
	if takeFromNodes && w.chance(5) { // what an earlier attempt could not clear
		pod.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{
			ResourceClaimName: "stale", Mapping: []corev1.NodeAllocatableMappedResources{{
				Name: corev1.ResourceCPU, Quantity: ptr.To(resource.MustParse("1"))}}}}
	}
	return pod
}

func (w *deviceWorld) play() {
	for i := range decisionsPerCase {
		w.decide(w.newPod(i))
		if len(w.placed) > 0 && w.chance(30) {
			at := w.IntN(len(w.placed))
			w.remove(w.t, w.placed[at])
			w.placed = slices.Delete(w.placed, at, at+1)
			w.count["left"]++
		}
		for w.chance(30) {
			w.changeDevices()
		}
	}
}

// decide lets all sides decide about a pod, and puts it on the node of kube-scheduler.
func (w *deviceWorld) decide(pod *corev1.Pod) {
	w.t.Helper()
	w.must(w.objects.Put(pod))
	before := testutil.ToFloat64(metrics.FastPathDeviceMisses)
	d := w.decideAll(w.t, pod)
	if misses := testutil.ToFloat64(metrics.FastPathDeviceMisses) - before; misses > 0 {
		w.t.Fatalf("%s: %v verdicts about devices were wrong", pod.Name, misses)
	}
	if w.chance(10) {
		w.count["forks"]++
		w.compareFork(w.t, pod, d)
	}
	if d.onFastPath {
		w.count["on the fast path"]++
	}
	if d.partial {
		w.count["partial"]++
	}
	if d.partial && requestsGPUs(pod) {
		w.count["partial with gpus"]++
	}
	if d.Host == "" {
		w.count["unplaced"]++
		for _, word := range []string{"Insufficient", "preempting"} {
			if d.mentions(word) {
				w.count[word]++
			}
		}
		w.must(w.objects.Remove(pod))
		return
	}
	w.count["placed"]++
	on := w.place(w.t, pod, d)
	if !reflect.DeepEqual(on.Status.NodeAllocatableResourceClaimStatuses,
		[]corev1.NodeAllocatableResourceClaimStatus(nil)) {
		w.count["takes"]++
	}
	w.placed = append(w.placed, on)
}
