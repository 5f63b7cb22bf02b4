// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/queue"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// moment is the stage of a pod while its profile changes.
type moment struct {
	// name completes "while a pod ...".
	name string
	// underWay means that the pod was popped, and that the instance under which it was popped
	// completes its attempt.
	underWay bool
	// place is the pod's place in the queue.
	place queue.Place
	// policy is the part of the policy that the moment needs.
	policy string
	// hold says where and how the plugin holds the pod. Empty: it does not.
	point  string
	status *fwk.Status
	// prepare creates the other objects of the moment, and changes the pod before it is created.
	prepare func(ctx context.Context, c *cell)
	// reached waits until the pod is there, if the hold and the place do not suffice.
	reached func(ctx context.Context, c *cell)
	// meanwhile checks other pods after the change, while the pod is still there.
	meanwhile func(ctx context.Context, c *cell)
	// goOn lets the pod continue, in addition to releasing its hold.
	goOn func(ctx context.Context, c *cell)
}

var (
	refused = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not yet")
	moments = []moment{
		{name: "waits in the active queue", place: queue.Active, prepare: holdTheLoop,
			goOn: func(_ context.Context, c *cell) { c.blocker.release() }},
		{name: "waits for its back-off to end", place: queue.ErrorBackoff,
			policy: "podInitialBackoff: 1h\npodMaxBackoff: 1h", point: "PreFilter",
			status: fwk.NewStatus(fwk.Error, "failed")},
		{name: "is unschedulable", place: queue.Unschedulable, point: "Filter", status: refused,
			goOn: func(ctx context.Context, c *cell) {
				Update(ctx, c.node, func(n *corev1.Node) { n.Labels["better"] = "yes" })
			}},
		{name: "is kept out of the queue by a PreEnqueue plugin", place: queue.Gated, point: "PreEnqueue",
			status: refused, goOn: func(ctx context.Context, c *cell) {
				Update(ctx, c.pod, func(p *corev1.Pod) { p.Labels = map[string]string{"better": "yes"} })
			}},
		{name: "has a scheduling gate", place: queue.Gated, prepare: func(_ context.Context, c *cell) {
			c.pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		}, goOn: func(ctx context.Context, c *cell) {
			Update(ctx, c.pod, func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
		}},
		{name: "has just been popped", underWay: true, place: queue.InFlight, point: "PreFilter"},
		{name: "is in Filter", underWay: true, place: queue.InFlight, point: "Filter"},
		{name: "is in Reserve", underWay: true, place: queue.InFlight, point: "Reserve", meanwhile: roomIsTaken},
		{name: "waits on Permit", underWay: true, place: queue.InFlight, point: "Permit", status: fwk.NewStatus(
			fwk.Wait), meanwhile: roomIsTaken,
			reached: func(ctx context.Context, c *cell) {
				Eventually(func() any { return c.instance().handle.GetWaitingPod(c.pod.UID) }).WithContext(ctx).
					ShouldNot(BeNil())
			},
			goOn: func(_ context.Context, c *cell) {
				// The current instance can allow a pod of an older instance, because they share the
				// waiting pods.
				all := plugins.of(c.name)
				all[len(all)-1].handle.GetWaitingPod(c.pod.UID).Allow(holding)
			}},
		{name: "is in PreBind", underWay: true, point: "PreBind", meanwhile: roomIsTaken},
		{name: "is being bound", underWay: true, point: "Bind", meanwhile: roomIsTaken},
		{name: "waits for the victims of its preemption to go", place: queue.Unschedulable, prepare: occupyNode,
			reached: victimIsLeaving, meanwhile: nobodyElseIsPreempted, goOn: victimGoes},
		{name: "holds a volume that was assumed for it", underWay: true, point: "PreBind", prepare: needVolume,
			meanwhile: noSecondPromise(podWithVolume), goOn: bindVolume},
		{name: "holds a device that was assumed for it", underWay: true, point: "PreBind", prepare: needDevice,
			meanwhile: noSecondPromise(podWithDevice), goOn: deviceIsReserved},
	}
)

// holdTheLoop blocks the scheduling loop with a pod of another profile, so that the cell's pod
// stays in the queue.
func holdTheLoop(ctx context.Context, c *cell) {
	blocker := podOn(spare, c.name+"-blocker", bystander, "1m")
	c.blocker = plugins.hold(blocker.Name, "PreFilter", nil)
	create(ctx, blocker)
	Eventually(c.blocker.reached).WithContext(ctx).Should(BeClosed())
}

// roomIsTaken checks that the room of a pod that is not bound yet counts.
func roomIsTaken(ctx context.Context, c *cell) {
	Expect(requested(c.node.Name)).To(Equal(int64(3000)))
	Expect(run.Parts().Cache.Dump().AssumedPods.Has(c.pod.UID)).To(BeTrue())
}

func requested(node string) int64 {
	return run.Parts().Cache.Dump().Nodes[node].Requested.MilliCPU
}

// occupyNode puts a victim where the pod must go, which takes a while to terminate once it is
// deleted, and another pod that leaves enough room.
func occupyNode(ctx context.Context, c *cell) {
	c.victim = podOn(c.node.Name, c.name+"-victim", bystander, "3")
	c.victim.Spec.NodeName = c.node.Name
	c.victim.Finalizers = []string{"example.com/witness"}
	small := podOn(c.node.Name, c.name+"-small", bystander, "1")
	small.Spec.NodeName = c.node.Name
	c.others = append(c.others, small)
	create(ctx, c.victim, small)
	c.pod.Spec.PriorityClassName = important
	Eventually(func() int64 { return requested(c.node.Name) }).WithContext(ctx).Should(Equal(int64(4000)))
}

func victimIsLeaving(ctx context.Context, c *cell) {
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(c.victim), c.victim)).To(Succeed())
		g.Expect(c.victim.DeletionTimestamp).NotTo(BeNil())
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(c.pod), c.pod)).To(Succeed())
		g.Expect(c.pod.Status.NominatedNodeName).To(Equal(c.node.Name))
	}).WithContext(ctx).Should(Succeed())
}

func nobodyElseIsPreempted(ctx context.Context, c *cell) {
	small := c.others[0]
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(small), small)).To(Succeed())
	Expect(small.DeletionTimestamp).To(BeNil())
}

func victimGoes(ctx context.Context, c *cell) {
	nobodyElseIsPreempted(ctx, c)
	Update(ctx, c.victim, func(p *corev1.Pod) { p.Finalizers = nil })
}

// needVolume creates one volume on the node, and two claims that it would fit.
func needVolume(ctx context.Context, c *cell) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: c.name},
		Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode})
	c.volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: Gibibyte, StorageClassName: c.name, AccessModes: []corev1.PersistentVolumeAccessMode{
			corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
		NodeAffinity: &corev1.VolumeNodeAffinity{
			Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{c.node.Name}}},
			}}}},
	}}
	create(ctx, c.volume)
	c.volume.Status.Phase = corev1.VolumeAvailable
	Expect(k8s.Status().Update(ctx, c.volume)).To(Succeed())
	podWithVolume(ctx, c, c.pod)
}

// podWithVolume gives a pod its own claim for the volume.
func podWithVolume(ctx context.Context, c *cell, pod *corev1.Pod) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: pod.Name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &c.name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: Gibibyte},
		},
	}
	create(ctx, claim)
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
	}}}
}

// bindVolume waits until the volume is given to the pod's claim, and then acts as the volume
// controller.
func bindVolume(ctx context.Context, c *cell) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault,
		Name: c.pod.Name}}
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(c.volume), c.volume)).To(Succeed())
		g.Expect(c.volume.Spec.ClaimRef).NotTo(BeNil())
		g.Expect(c.volume.Spec.ClaimRef.Name).To(Equal(claim.Name))
	}).WithContext(ctx).Should(Succeed())
	c.volume.Status.Phase = corev1.VolumeBound
	Expect(k8s.Status().Update(ctx, c.volume)).To(Succeed())
	Update(ctx, claim, func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.VolumeName = c.volume.Name
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	})
	claim.Status.Phase, claim.Status.Capacity, claim.Status.AccessModes = corev1.ClaimBound, Gibibyte,
		claim.Spec.AccessModes
	Expect(k8s.Status().Update(ctx, claim)).To(Succeed())
}

const deviceDriver = "driver.example.com"

// needDevice creates one device on the node.
func needDevice(ctx context.Context, c *cell) {
	create(ctx, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + deviceDriver + `"`}}},
	}}, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: c.node.Name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: deviceDriver, NodeName: ptr.To(c.node.Name),
		Pool:    resourcev1.ResourcePool{Name: c.node.Name, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "d1"}},
	}})
	podWithDevice(ctx, c, c.pod)
}

// podWithDevice gives a pod its own claim for the device.
func podWithDevice(ctx context.Context, c *cell, pod *corev1.Pod) {
	create(ctx, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: pod.Name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: c.name},
		}}}},
	})
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: ptr.To(pod.Name)}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
}

// deviceIsReserved waits until the claim is reserved for the pod, with the device.
func deviceIsReserved(ctx context.Context, c *cell) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault,
		Name: c.pod.Name}}
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
		g.Expect(claim.Status.Allocation).NotTo(BeNil())
		g.Expect(claim.Status.ReservedFor).To(ConsistOf(HaveField("UID", c.pod.UID)))
	}).WithContext(ctx).Should(Succeed())
}

// noSecondPromise checks that the current instance does not promise another pod what the pod holds.
func noSecondPromise(equip func(context.Context, *cell, *corev1.Pod)) func(context.Context, *cell) {
	return func(ctx context.Context, c *cell) {
		if run.Scheduler.Store().Current().Get(c.name) == nil {
			return // no instance can promise anything
		}
		rival := podOn(c.node.Name, c.name+"-rival", c.name, "1m")
		equip(ctx, c, rival)
		create(ctx, rival)
		ExpectUnscheduled(ctx, rival, corev1.PodReasonUnschedulable, Not(BeEmpty()))
	}
}
