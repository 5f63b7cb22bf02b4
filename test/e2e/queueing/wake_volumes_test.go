// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/objects"
)

// driver is the CSI driver of the volumes of a table.
const driver = "driver.example.com"

// volume returns a volume without a class that many may use.
func volume(name string, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: Gibibyte, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}
	for _, change := range changes {
		change(v)
	}
	return v
}

func inZone(zone string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Labels = map[string]string{corev1.LabelTopologyZone: zone} }
}

// usableIn limits a volume to nodes with a label.
func usableIn(key, value string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
			Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
			}}}}
	}
}

func byDriver(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver,
		VolumeHandle: v.Name}}
}

// claim returns a claim without a class for a volume that many may use.
func claim(name string, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := ClaimOf(name, "")
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	for _, change := range changes {
		change(c)
	}
	return c
}

// boundTo does what the volume controller does with a claim whose volume it has found.
func boundTo(volume string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = volume
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	}
}

func ofClass(class string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &class }
}

func byOnePod(c *corev1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
}

func class(name string, mode storagev1.VolumeBindingMode,
	changes ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driver,
		VolumeBindingMode: &mode}
	for _, change := range changes {
		change(c)
	}
	return c
}

func allowing(zone string) func(*storagev1.StorageClass) {
	return func(c *storagev1.StorageClass) {
		c.AllowedTopologies = []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
				{Key: corev1.LabelTopologyZone, Values: []string{zone}}},
		}}
	}
}

// csiNode reports how many volumes of the driver a node can have attached.
func csiNode(name string, limit int32) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: driver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: &limit},
		}}},
	}
}

func csiDriver(capacity bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{
		StorageCapacity: &capacity,
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent,
			storagev1.VolumeLifecycleEphemeral},
	}}
}

func capacity(quantity string) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "capacity"}, StorageClassName: "class",
		NodeTopology: &metav1.LabelSelector{}, Capacity: ptr.To(resource.MustParse(quantity)),
	}
}

func haveCapacity(quantity string) func(context.Context) {
	return have(capacity("0"),
		func(c *storagev1.CSIStorageCapacity) { c.Capacity = ptr.To(resource.MustParse(quantity)) })
}

// inline makes a pod use the driver without a claim.
func inline(pod *corev1.Pod) {
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		corev1.Volume{Name: "inline", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}})
}

var _ = Describe("A change of volumes", Ordered, ContinueOnFailure, func() {
	var w wakers
	BeforeAll(func() { w.start() })
	BeforeEach(w.expectCleared)

	const immediate, late = storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
	zone := NodeOf("n1", corev1.LabelTopologyZone, "z1")
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "attachment"},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: "n1",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("elsewhere")},
		},
	}

	DescribeTable("wakes the pods that it may help, and no others:", w.check,
		// VolumeZone.
		Entry("the volume of a claim is created", wake{
			plugin: "VolumeZone", alone: true, given: []client.Object{zone, claim("claim", boundTo("v1"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: come(volume("v1", inZone("z1"))), event: of(fwk.PersistentVolume, fwk.Add),
		}),
		Entry("a volume changes its zone", wake{
			plugin: "VolumeZone", alone: true,
			given:   []client.Object{zone, volume("v1", inZone("z2")), claim("claim", boundTo("v1"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: have(volume("v1"), inZone("z1")), event: of(fwk.PersistentVolume, fwk.Update),
		}),
		Entry("another field of a volume changes", wake{
			plugin: "VolumeZone", alone: true,
			given:   []client.Object{zone, volume("v1", inZone("z2")), claim("claim", boundTo("v1"))},
			asleep:  []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: have(volume("v1"), func(v *corev1.PersistentVolume) { v.Labels["more"] = "yes" }),
			event:   of(fwk.PersistentVolume, fwk.Update),
		}),
		Entry("a claim that is already bound is created", wake{
			plugin: "VolumeZone", alone: true, given: []client.Object{zone, volume("v1", inZone("z1"))},
			woken: []*corev1.Pod{p("pod", UsingClaim("claim"))}, asleep: []*corev1.Pod{p("other", UsingClaim("other"))},
			happens: come(claim("claim", boundTo("v1"))), event: of(fwk.PersistentVolumeClaim, fwk.Add),
		}),
		Entry("a claim is bound", wake{
			plugin: "VolumeZone", alone: true, given: []client.Object{zone, volume("v1", inZone("z1")), claim("claim")},
			woken: []*corev1.Pod{p("pod", UsingClaim("claim"))}, asleep: []*corev1.Pod{p("other", UsingClaim("other"))},
			happens: have(claim("claim"), boundTo("v1")), event: of(fwk.PersistentVolumeClaim, fwk.Update),
		}),
		Entry("a class with delayed binding is created", wake{
			plugin: "VolumeZone", alone: true, given: []client.Object{zone, claim("claim", ofClass("class"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: come(class("class", late)), event: of(fwk.StorageClass, fwk.Add),
		}),
		Entry("a class with immediate binding is created", wake{
			plugin: "VolumeZone", alone: true, given: []client.Object{zone, claim("claim", ofClass("class"))},
			asleep:  []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: come(class("class", immediate)), event: of(fwk.StorageClass, fwk.Add),
		}),
		Entry("a node is added, and volumes have zones", wake{
			plugin: "VolumeZone", alone: true,
			given:   []client.Object{zone, volume("v1", inZone("z2")), claim("claim", boundTo("v1"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: come(NodeOf("n2", corev1.LabelTopologyZone, "z2")), event: of(fwk.Node, fwk.Add),
		}),

		// VolumeRestrictions.
		Entry("a ReadWriteOncePod claim is created", wake{
			plugin: "VolumeRestrictions", alone: true, given: []client.Object{NodeOf("n1")},
			woken: []*corev1.Pod{p("pod", UsingClaim("claim"))}, asleep: []*corev1.Pod{p("other", UsingClaim("other"))},
			happens: come(claim("claim", byOnePod)), event: of(fwk.PersistentVolumeClaim, fwk.Add),
		}),
		Entry("the pod of a ReadWriteOncePod claim is deleted", wake{
			plugin: "VolumeRestrictions", alone: true,
			given: []client.Object{NodeOf("n1"), claim("claim", byOnePod),
				resident("resident", "n1", UsingClaim("claim"))},
			woken: []*corev1.Pod{p("pod", UsingClaim("claim"))}, asleep: []*corev1.Pod{p("other", UsingClaim("other"))},
			happens: goAway(resident("resident", "n1")), event: schedframework.EventAssignedPodDelete,
		}),

		// VolumeBinding.
		Entry("a node where a volume can be used is added", wake{
			plugin: "VolumeBinding", alone: true,
			given: []client.Object{zone, volume("v1", usableIn(corev1.LabelTopologyZone, "z2")),
				claim("claim", boundTo("v1"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: come(NodeOf("n2", corev1.LabelTopologyZone, "z2")), event: of(fwk.Node, fwk.Add),
		}),
		Entry("a node gets a label with which a volume can be used there", wake{
			plugin: "VolumeBinding", alone: true,
			given: []client.Object{NodeOf("n1"), volume("v1", usableIn("disk", "yes")),
				claim("claim", boundTo("v1"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: have(NodeOf("n1"), Relabelled("disk", "yes")), event: of(fwk.Node, fwk.UpdateNodeLabel),
		}),
		Entry("a volume is created", wake{
			plugin: "VolumeBinding", alone: true, given: []client.Object{NodeOf("n1"), claim("claim")},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: come(volume("v1")), event: of(fwk.PersistentVolume, fwk.Add),
		}),
		Entry("a volume changes", wake{
			plugin: "VolumeBinding", alone: true,
			given: []client.Object{NodeOf("n1"), volume("v1", usableIn("disk", "yes")),
				claim("claim", boundTo("v1"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: have(volume("v1"), inZone("z1")), event: of(fwk.PersistentVolume, fwk.Update),
		}),
		Entry("a claim is created", wake{
			plugin: "VolumeBinding", alone: true, given: []client.Object{NodeOf("n1"), volume("v1")},
			woken: []*corev1.Pod{p("pod", UsingClaim("claim"))}, asleep: []*corev1.Pod{p("other", UsingClaim("other"))},
			happens: come(claim("claim", boundTo("v1"))), event: of(fwk.PersistentVolumeClaim, fwk.Add),
		}),
		Entry("a claim that pods wait for is bound", wake{
			plugin: "VolumeBinding", alone: true,
			given: []client.Object{NodeOf("n1"), volume("v1"), claim("claim"), claim("other")},
			woken: []*corev1.Pod{p("pod", UsingClaim("claim"))}, asleep: []*corev1.Pod{p("other", UsingClaim("other"))},
			happens: have(claim("claim"), boundTo("v1")), event: of(fwk.PersistentVolumeClaim, fwk.Update),
		}),
		Entry("the class of a claim is created", wake{
			plugin: "VolumeBinding", alone: true,
			given:   []client.Object{NodeOf("n1"), claim("claim", ofClass("class"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: come(class("class", late)), event: of(fwk.StorageClass, fwk.Add),
		}),
		Entry("a class allows other topologies", wake{
			plugin: "VolumeBinding", alone: true,
			given:   []client.Object{zone, class("class", late, allowing("z2")), claim("claim", ofClass("class"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: have(class("class", late), allowing("z1")), event: of(fwk.StorageClass, fwk.Update),
		}),
		Entry("another field of a class changes", wake{
			plugin: "VolumeBinding", alone: true,
			given:  []client.Object{zone, class("class", late, allowing("z2")), claim("claim", ofClass("class"))},
			asleep: []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: have(class("class", late),
				func(c *storagev1.StorageClass) { c.Labels = map[string]string{"seen": "yes"} }),
			event: of(fwk.StorageClass, fwk.Update),
		}),
		Entry("the CSI drivers of a node are registered", wake{
			plugin: "VolumeBinding", alone: true, given: []client.Object{NodeOf("n1"), claim("claim")},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: come(csiNode("n1", 5)), event: of(fwk.CSINode, fwk.Add),
		}),
		Entry("a node migrates a plugin to CSI", wake{
			plugin: "VolumeBinding", alone: true,
			given: []client.Object{NodeOf("n1"), csiNode("n1", 5), claim("claim")},
			woken: []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: have(csiNode("n1", 5), func(c *storagev1.CSINode) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, corev1.MigratedPluginsAnnotationKey,
					"kubernetes.io/aws-ebs")
			}),
			event: of(fwk.CSINode, fwk.Update),
		}),
		Entry("another field of the CSI drivers of a node changes", wake{
			plugin: "VolumeBinding", alone: true,
			given:  []client.Object{NodeOf("n1"), csiNode("n1", 5), claim("claim")},
			asleep: []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: have(csiNode("n1", 5),
				func(c *storagev1.CSINode) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, "seen", "yes") }),
			event: of(fwk.CSINode, fwk.Update),
		}),
		Entry("a driver no longer reports capacity", wake{
			plugin: "VolumeBinding", alone: true, given: []client.Object{NodeOf("n1"), csiDriver(true), claim("claim")},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"), inline)},
			happens: have(csiDriver(true), func(d *storagev1.CSIDriver) { d.Spec.StorageCapacity = ptr.To(false) }),
			event:   of(fwk.CSIDriver, fwk.Update),
		}),
		Entry("a driver reports capacity now", wake{
			plugin: "VolumeBinding", alone: true,
			given:   []client.Object{NodeOf("n1"), csiDriver(false), claim("claim")},
			asleep:  []*corev1.Pod{p("pod", UsingClaim("claim"), inline)},
			happens: have(csiDriver(false), func(d *storagev1.CSIDriver) { d.Spec.StorageCapacity = ptr.To(true) }),
			event:   of(fwk.CSIDriver, fwk.Update),
		}),
		Entry("capacity is reported", wake{
			plugin: "VolumeBinding", alone: true,
			given: []client.Object{NodeOf("n1"), csiDriver(true), class("class", late),
				claim("claim", ofClass("class"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: come(capacity("5Gi")), event: of(fwk.CSIStorageCapacity, fwk.Add),
		}),
		Entry("capacity grows", wake{
			plugin: "VolumeBinding", alone: true,
			given: []client.Object{NodeOf("n1"), csiDriver(true), class("class", late), capacity("1Mi"),
				claim("claim", ofClass("class"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: haveCapacity("5Gi"), event: of(fwk.CSIStorageCapacity, fwk.Update),
		}),
		Entry("capacity shrinks", wake{
			plugin: "VolumeBinding", alone: true,
			given: []client.Object{NodeOf("n1"), csiDriver(true), class("class", late), capacity("2Mi"),
				claim("claim", ofClass("class"))},
			asleep:  []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: haveCapacity("1Mi"), event: of(fwk.CSIStorageCapacity, fwk.Update),
		}),

		// NodeVolumeLimits.
		Entry("the limits of another node are reported", wake{
			plugin: "NodeVolumeLimits", alone: true,
			given: []client.Object{NodeOf("n1"), csiNode("n1", 0), volume("v1", byDriver),
				claim("claim", boundTo("v1"))},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: come(csiNode("n2", 5)), event: of(fwk.CSINode, fwk.Add),
		}),
		Entry("a limit rises", wake{
			server: "1.35", plugin: "NodeVolumeLimits", alone: true,
			given: []client.Object{NodeOf("n1"), csiNode("n1", 0), volume("v1", byDriver),
				claim("claim", boundTo("v1"))},
			woken: []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: have(csiNode("n1", 0),
				func(c *storagev1.CSINode) { c.Spec.Drivers[0].Allocatable.Count = ptr.To[int32](1) }),
			event: of(fwk.CSINode, fwk.Update),
		}),
		Entry("a pod with a volume is deleted", wake{
			plugin: "NodeVolumeLimits", alone: true,
			given: []client.Object{
				NodeOf("n1"), csiNode("n1", 1), volume("v1", byDriver), volume("v2", byDriver),
				claim("one", boundTo("v1")), claim("two", boundTo("v2")),
				resident("resident", "n1", UsingClaim("one")),
			},
			woken:   []*corev1.Pod{p("pod", UsingClaim("two"))},
			happens: goAway(resident("resident", "n1")), event: schedframework.EventAssignedPodDelete,
		}),
		Entry("a pod without volumes is deleted", wake{
			plugin: "NodeVolumeLimits", alone: true,
			given: []client.Object{
				NodeOf("n1"), csiNode("n1", 0), volume("v1", byDriver), claim("claim", boundTo("v1")),
				resident("resident", "n1"),
			},
			asleep:  []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: goAway(resident("resident", "n1")), event: schedframework.EventAssignedPodDelete,
		}),
		Entry("a volume is detached", wake{
			plugin: "NodeVolumeLimits", alone: true,
			given: []client.Object{NodeOf("n1"), csiNode("n1", 0), volume("v1", byDriver),
				claim("claim", boundTo("v1")), volume("elsewhere", byDriver), attachment},
			woken:   []*corev1.Pod{p("pod", UsingClaim("claim"))},
			happens: goAway(attachment), event: of(fwk.VolumeAttachment, fwk.Delete),
		}),
	)
})
