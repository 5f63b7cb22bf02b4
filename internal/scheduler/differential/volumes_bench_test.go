// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
	"github.com/livesched/livesched/test/workload"
)

// benchDriver is the CSI driver of the volumes in BenchmarkDecideVolumes. In-tree volumes are
// migrated to it. claimedPerNode is the number of pods with a claim on each node.
const (
	benchDriver    = "ebs.csi.aws.com"
	claimedPerNode = 2
)

// volumeKind is a kind of claims in a cluster.
type volumeKind struct {
	name string
	// class is the storage class, and driver tells whether the driver reports capacity.
	class  storagev1.StorageClass
	driver storagev1.CSIDriverSpec
	// node changes each node. ofNode returns the objects of the i-th node besides its CSINode.
	node   func(*corev1.Node)
	ofNode func(i int, node *corev1.Node) []runtime.Object
	// claim changes the i-th claim, which is bound if volume returns its volume.
	claim  func(*corev1.PersistentVolumeClaim)
	volume func(i int, pv *corev1.PersistentVolume)
}

var volumeKinds = []volumeKind{
	{name: "csi", volume: inZone},
	{
		name: "rwop", volume: inZone,
		claim: func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = corev1.ReadWriteOncePod },
	},
	{
		name: "migrated",
		node: func(n *corev1.Node) { n.Labels["topology.ebs.csi.aws.com/zone"] = n.Labels[zone] },
		volume: func(i int, pv *corev1.PersistentVolume) {
			inZone(i, pv)
			pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
				AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: pv.Name}}
		},
	},
	{name: "late", class: storagev1.StorageClass{Provisioner: benchDriver}},
	{
		name:   "capacity",
		class:  storagev1.StorageClass{Provisioner: benchDriver},
		driver: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)},
		ofNode: func(i int, node *corev1.Node) []runtime.Object {
			return []runtime.Object{&storagev1.CSIStorageCapacity{
				ObjectMeta:       metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: node.Name},
				StorageClassName: benchClass, Capacity: resource.NewQuantity(int64(1+i%100)<<30, resource.BinarySI),
				NodeTopology: &metav1.LabelSelector{
					MatchLabels: map[string]string{hostname: node.Labels[hostname]}}}}
		},
	},
	{name: "local", class: storagev1.StorageClass{Provisioner: volume.NotSupportedProvisioner}, ofNode: localVolume},
	{
		name:  "few-local",
		class: storagev1.StorageClass{Provisioner: volume.NotSupportedProvisioner},
		ofNode: func(i int, node *corev1.Node) []runtime.Object {
			if i%20 > 0 {
				return nil
			}
			return localVolume(i, node)
		},
	},
}

// localVolume returns a free volume on a node.
func localVolume(i int, node *corev1.Node) []runtime.Object {
	pv := objects.VolumeOn("local-"+node.Name, benchClass, node.Labels[hostname])
	pv.Status.Phase = corev1.VolumeAvailable
	pv.Spec.Capacity = corev1.ResourceList{
		corev1.ResourceStorage: *resource.NewQuantity(int64(1+i%100)<<30, resource.BinarySI)}
	return []runtime.Object{pv}
}

const benchClass = "bench"

func inZone(i int, pv *corev1.PersistentVolume) {
	pv.Spec.NodeAffinity = onNodes(zone, workload.ZoneOf(i))
}

// BenchmarkDecideVolumes measures decisions about pods with a claim each, in a cluster with some
// such pods on each node, whose volumes count against the limits of the nodes: with livesched, and
// with kube-scheduler, which samples nodes by default. Reserve and what follows is not measured.
func BenchmarkDecideVolumes(b *testing.B) {
	for i := range volumeKinds {
		for _, nodes := range []int{500, 5000} {
			for _, contender := range []string{"livesched", "kube-scheduler"} {
				b.Run(fmt.Sprintf("%s/%d/%s", volumeKinds[i].name, nodes, contender), func(b *testing.B) {
					measureVolumeDecisions(b, &volumeKinds[i], nodes, contender)
				})
			}
		}
	}
}

func measureVolumeDecisions(b *testing.B, kind *volumeKind, nodes int, contender string) {
	c := newVolumeCluster(b, kind, contender, nodes)
	defer c.close()
	for i := range nodes * claimedPerNode {
		c.bind(c.newPod(), workload.NodeName(i%nodes))
	}
	c.place() // a scheduler learns the kind of pod
	c.leave()
	c.spent = 0
	for b.Loop() {
		c.place()
		c.leave()
	}
	b.ReportMetric(float64(c.spent.Microseconds())/float64(b.N), "us/decision")
}

// volumeCluster is the cluster of one contender. Pods come and go in turn, and take the claims in
// turn.
type volumeCluster struct {
	*testing.B
	decide      func(*corev1.Pod) sidebyside.Decision
	add, remove func(*corev1.Pod) error
	close       func()
	spent       time.Duration
	placed      []*corev1.Pod
	// next numbers the pods. numClaims are the claims.
	next, numClaims int
}

func newVolumeCluster(b *testing.B, kind *volumeKind, contender string, nodes int) *volumeCluster {
	b.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(b.Context(), logr.Discard()))
	c := &volumeCluster{B: b, numClaims: nodes*claimedPerNode + 1}
	all := sidebyside.NewObjects()
	c.must(all.Put(workload.Service()))
	c.must(all.Put(kind.shared()...))
	for i := range c.numClaims {
		c.must(all.Put(kind.claimed(i)...))
	}
	configuration := &sidebyside.Configuration{Parallelism: 16, Profile: configv1.KubeSchedulerProfile{
		SchedulerName: ptr.To(schedulerName)}}
	var addNode func(*corev1.Node)
	if contender == "kube-scheduler" {
		k, err := sidebyside.NewKubeScheduler(ctx, all, configuration, nil)
		c.must(err)
		addNode = func(node *corev1.Node) { k.Scheduler.Cache.AddNode(logr.Discard(), node) }
		c.decide = k.Decide
		c.add = func(pod *corev1.Pod) error { return k.Scheduler.Cache.AddPod(logr.Discard(), pod) }
		c.remove = func(pod *corev1.Pod) error { return k.Scheduler.Cache.RemovePod(logr.Discard(), pod) }
		c.close = func() { cancel(); k.Close() }
	} else {
		l, err := sidebyside.NewLivesched(ctx, all, configuration, sidebyside.FastPath, nil)
		c.must(err)
		addNode = func(node *corev1.Node) { l.Cache.AddNode(logr.Discard(), node) }
		c.decide = l.Decide
		c.add = func(pod *corev1.Pod) error {
			info, err := schedframework.NewPodInfo(pod)
			if err == nil {
				err = l.Cache.AssumePod(logr.Discard(), info)
			}
			if err != nil {
				return err
			}
			return l.Cache.AddPod(logr.Discard(), pod)
		}
		c.remove = func(pod *corev1.Pod) error { return l.Cache.RemovePod(logr.Discard(), pod) }
		c.close = func() { cancel(); l.Close() }
	}
	for i := range nodes {
		node := workload.Node(i)
		if kind.node != nil {
			kind.node(node)
		}
		addNode(node)
		c.must(all.Put(workload.CSINode(i)))
		if kind.ofNode != nil {
			c.must(all.Put(kind.ofNode(i, node)...))
		}
	}
	return c
}

// shared returns the storage class and the driver.
func (k *volumeKind) shared() []runtime.Object {
	class := k.class
	class.Name, class.VolumeBindingMode = benchClass, ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	if class.Provisioner == "" {
		class.Provisioner = benchDriver
	}
	return []runtime.Object{&class,
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: benchDriver}, Spec: k.driver}}
}

// claimed returns the i-th claim, and its volume.
func (k *volumeKind) claimed(i int) []runtime.Object {
	claim := objects.ClaimOf(claimName(i), benchClass)
	claim.UID, claim.ResourceVersion = types.UID(claim.Name), "1"
	if k.claim != nil {
		k.claim(claim)
	}
	if k.volume == nil {
		claim.Status.Phase = corev1.ClaimPending
		return []runtime.Object{claim}
	}
	claim.Annotations = map[string]string{volume.AnnBindCompleted: "yes"}
	claim.Spec.VolumeName, claim.Status.Phase = "volume-"+claim.Name, corev1.ClaimBound
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: benchClass, AccessModes: claim.Spec.AccessModes, Capacity: objects.Gibibyte,
			ClaimRef: &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: benchDriver, VolumeHandle: claim.Name}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	k.volume(i, pv)
	return []runtime.Object{claim, pv}
}

func (c *volumeCluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// newPod returns the next pod.
func (c *volumeCluster) newPod() *corev1.Pod {
	name := fmt.Sprint("pod-", c.next)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name,
		UID: types.UID(name)}, Spec: corev1.PodSpec{SchedulerName: schedulerName, Containers: []corev1.Container{{
		Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m")}}}}}}
	objects.UsingClaim(claimName(c.next % c.numClaims))(pod)
	c.next++
	return pod
}

// place decides about a pod, and binds it.
func (c *volumeCluster) place() {
	pod := c.newPod()
	start := time.Now()
	d := c.decide(pod)
	c.spent += time.Since(start)
	c.must(d.Err)
	c.bind(pod, d.Host)
}

func (c *volumeCluster) bind(pod *corev1.Pod, node string) {
	pod.Spec.NodeName = node
	c.must(c.add(pod))
	c.placed = append(c.placed, pod)
}

// leave removes the pod that was placed first.
func (c *volumeCluster) leave() {
	pod := c.placed[0]
	c.placed = c.placed[1:]
	c.must(c.remove(pod))
}
