// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	fakeclient "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/test/objects"
)

// volumeBinding is a pod on node n1 with a claim that is to be bound to a volume, and the
// controllers, which the test plays.
type volumeBinding struct {
	*testing.T
	client   *fakeclient.Clientset
	upstream *heldBinder
	binder   *boundedBinder
	pod      *corev1.Pod
	volumes  *volumebinding.PodVolumes
	version  atomic.Int64 // of the claim or volume that was updated last
}

// heldBinder is upstream's binder. If hold is not nil, BindPodVolumes does not return before hold
// is closed. It sends its result to ended as well.
type heldBinder struct {
	volumebinding.SchedulerVolumeBinder
	hold  chan struct{}
	ended chan error
}

func (h *heldBinder) BindPodVolumes(ctx context.Context, pod *corev1.Pod, volumes *volumebinding.PodVolumes) error {
	err := h.SchedulerVolumeBinder.BindPodVolumes(ctx, pod, volumes)
	if h.hold != nil {
		<-h.hold
	}
	h.ended <- err
	return err
}

// newVolumeBinding returns a claim for which a volume has to be created, unless there is one
// already.
func newVolumeBinding(t *testing.T, existing ...runtime.Object) *volumeBinding {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "1",
		Labels: map[string]string{corev1.LabelHostname: "n1"}}}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "claim", UID: "uid", ResourceVersion: "1"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("class")},
	}
	pod := claimant("claim")
	pod.Spec.NodeName = node.Name
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}, Provisioner: "csi.example.com",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
	c := &volumeBinding{T: t, pod: pod,
		client: fakeclient.NewClientset(append(existing, node, claim, pod, class)...)}
	c.version.Store(1)
	c.client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		updated := action.(clienttesting.UpdateAction).GetObject().(metav1.Object)
		updated.SetResourceVersion(strconv.FormatInt(c.version.Add(1), 10))
		return false, nil, nil
	})
	watching := c.followWatches()
	factory := informers.NewSharedInformerFactory(c.client, 0)
	core, storage, changes := factory.Core().V1(), factory.Storage().V1(), newClaimChanges()
	binder, err := newPodBinder(logr.Discard(), binderClient{c.client}, core, storage, changes, &assumedVolumes{})
	must(t, err)
	c.upstream = &heldBinder{SchedulerVolumeBinder: binder, ended: make(chan error, 1)}
	c.binder = &boundedBinder{
		SchedulerVolumeBinder: c.upstream,
		provisioner: &provisioner{client: binderClient{c.client}, pods: core.Pods().Lister(),
			nodes: core.Nodes().Lister(), claims: binder.claims, changes: changes, volumes: binder.volumes.store,
			lookEvery: time.Hour},
		assumed: &assumedVolumes{}, timeout: time.Hour,
	}
	ctx, cancel := context.WithCancel(quiet(t))
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	for _, resource := range []string{"pods", "nodes", "persistentvolumeclaims", "persistentvolumes"} {
		<-watching[resource]
	}
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	asked, err := c.binder.GetPodVolumeClaims(logr.Discard(), pod)
	must(t, err)
	found, reasons, err := c.binder.FindPodVolumes(logr.Discard(), pod, asked, node)
	must(t, err)
	if len(reasons) > 0 || onlyProvisions(found) == isStatic(found) || isStatic(found) != (len(existing) > 0) {
		t.Fatalf("got %+v, %v", found, reasons)
	}
	if _, err := c.binder.AssumePodVolumes(logr.Discard(), pod, "n1", found); err != nil {
		t.Fatal(err)
	}
	c.volumes = found
	return c
}

// followWatches returns channels, by resource, that are closed when it is watched. The fake client
// does not send what has changed between a list and the watch after it.
func (c *volumeBinding) followWatches() map[string]chan struct{} {
	watching := map[string]chan struct{}{}
	for _, resource := range []string{"pods", "nodes", "persistentvolumeclaims", "persistentvolumes"} {
		started := make(chan struct{})
		watching[resource] = started
		once := sync.OnceFunc(func() { close(started) })
		c.client.PrependWatchReactor(resource, func(action clienttesting.Action) (bool, watch.Interface, error) {
			watcher, err := c.client.Tracker().Watch(action.GetResource(), action.GetNamespace(),
				action.(clienttesting.WatchActionImpl).ListOptions)
			once()
			return true, watcher, err
		})
	}
	return watching
}

// check reports an error in any goroutine.
func (c *volumeBinding) check(err error) {
	if err != nil {
		c.Error(err)
	}
}

// update changes the claim when the scheduler has written the node into it.
func (c *volumeBinding) update(change func(*corev1.PersistentVolumeClaim)) {
	claims := c.client.CoreV1().PersistentVolumeClaims(namespace)
	for {
		claim, err := claims.Get(c.Context(), "claim", metav1.GetOptions{})
		if err != nil {
			c.Error(err)
			return
		}
		if claim.Annotations[storagehelpers.AnnSelectedNode] != "n1" {
			continue
		}
		change(claim)
		_, err = claims.Update(c.Context(), claim, metav1.UpdateOptions{})
		c.check(err)
		return
	}
}

// volumeOn returns a volume that only a node with this name can use.
func volumeOn(node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume", ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "class",
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable}}
}

// create creates the volume for the claim.
func (c *volumeBinding) create(node string) {
	volume := volumeOn(node)
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: "claim", UID: "uid"}
	_, err := c.client.CoreV1().PersistentVolumes().Create(c.Context(), volume, metav1.CreateOptions{})
	c.check(err)
}

func bound(claim *corev1.PersistentVolumeClaim) {
	claim.Spec.VolumeName = "volume"
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
}

// TestVolumesThatAreCreated has an hour between two looks, so that events must wake the binding
// cycle.
func TestVolumesThatAreCreated(t *testing.T) {
	for name, test := range map[string]struct {
		controllers func(*volumeBinding)
		timeout     time.Duration
		lookEvery   time.Duration
		other       string // another claim of the pod
		want        string
	}{
		"are there": {controllers: func(c *volumeBinding) {
			c.create("n1")
			c.update(func(claim *corev1.PersistentVolumeClaim) { claim.Labels = map[string]string{"some": "change"} })
			c.update(bound)
		}},
		"are seen after their claims": {controllers: func(c *volumeBinding) {
			c.update(bound)
			c.create("n1")
		}},
		"cannot be created": {controllers: func(c *volumeBinding) {
			c.update(func(claim *corev1.PersistentVolumeClaim) {
				delete(claim.Annotations, storagehelpers.AnnSelectedNode)
			})
		}, want: `binding volumes: provisioning failed for PVC "claim"`},
		"are created elsewhere": {controllers: func(c *volumeBinding) {
			c.create("n2")
			c.update(bound)
		}, want: `binding volumes: a volume cannot be used on node "n1": node(s) didn't match PersistentVolume's node affinity`},
		"are for a claim that is deleted": {controllers: func(c *volumeBinding) {
			c.update(func(*corev1.PersistentVolumeClaim) {})
			c.check(c.client.CoreV1().PersistentVolumeClaims(namespace).Delete(c.Context(), "claim",
				metav1.DeleteOptions{}))
		}, want: `binding volumes: failed to check provisioning pvc: persistentvolumeclaim "claim" not found`},
		"are for a pod whose other claim is deleted": {controllers: func(c *volumeBinding) {
			c.create("n1")
			c.update(bound)
		}, other: "gone", want: `binding volumes: persistentvolumeclaim "gone" not found`},
		"are for a pod that is deleted": {lookEvery: time.Millisecond, controllers: func(c *volumeBinding) {
			c.check(c.client.CoreV1().Pods(namespace).Delete(c.Context(), c.pod.Name, metav1.DeleteOptions{}))
		}, want: `binding volumes: pod does not exist any more: pod "claim" not found`},
		"are for a node that is deleted": {lookEvery: time.Millisecond, controllers: func(c *volumeBinding) {
			c.check(c.client.CoreV1().Nodes().Delete(c.Context(), "n1", metav1.DeleteOptions{}))
		}, want: `binding volumes: failed to get node "n1": node "n1" not found`},
		"take too long": {timeout: time.Millisecond, controllers: func(*volumeBinding) {},
			want: "binding volumes: volumes were not bound within 1ms"},
		"cannot be asked for": {controllers: func(c *volumeBinding) {
			c.client.PrependReactor("update", "persistentvolumeclaims",
				func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("conflict") })
		}, want: "conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newVolumeBinding(t)
			if test.timeout > 0 {
				c.binder.timeout = test.timeout
			}
			if test.lookEvery > 0 {
				c.binder.provisioner.lookEvery = test.lookEvery
			}
			if test.other != "" {
				c.pod = objects.Edited(c.pod, func(pod *corev1.Pod) {
					pod.Spec.Volumes = append(pod.Spec.Volumes, claimant(test.other).Spec.Volumes...)
				})
			}
			if test.want == "conflict" {
				test.controllers(c)
			} else {
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					test.controllers(c)
				}()
				defer func() { <-ended }()
			}
			err := c.binder.BindPodVolumes(quiet(t), c.pod, c.volumes)
			if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if changes := c.binder.provisioner.changes; len(changes.watching) > 0 {
				t.Errorf("still watching: %v", changes.watching)
			}
		})
	}
}

// TestWhatWasWrittenForAClaimIsForgotten has claims as they are when etcd was restored from a
// backup.
func TestWhatWasWrittenForAClaimIsForgotten(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "claim", UID: "uid"}}
	selected, elsewhere, bound := claim.DeepCopy(), claim.DeepCopy(), claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&selected.ObjectMeta, storagehelpers.AnnSelectedNode, "n1")
	metav1.SetMetaDataAnnotation(&elsewhere.ObjectMeta, storagehelpers.AnnSelectedNode, "n2")
	bound.Spec.VolumeName = "volume"
	pod := claimant("claim")
	pod.Spec.NodeName = "n1"
	for name, test := range map[string]struct {
		claim     *corev1.PersistentVolumeClaim
		claimed   types.UID // by the volume
		forgotten bool
	}{
		"it names the node":            {selected, "", false},
		"it names another node":        {elsewhere, "", true},
		"it is bound":                  {bound, "", false},
		"a volume names it":            {claim, claim.UID, false},
		"a volume names another claim": {claim, "other", true},
		"a volume names no claim":      {claim, "", true},
	} {
		claims := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc,
			toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		volumes := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, fastpath.VolumeIndexers)
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume"}}
		if test.claimed != "" {
			volume.Spec.ClaimRef = &corev1.ObjectReference{UID: test.claimed}
		}
		must(t, errors.Join(claims.Add(test.claim), volumes.Add(volume)))
		p := &provisioner{claims: corelisters.NewPersistentVolumeClaimLister(claims), volumes: volumes}
		if err := p.checkForgotten(pod); (err != nil) != test.forgotten {
			t.Errorf("%s: %v", name, err)
		}
		lost := lostWrites{provisioner: p, pod: pod}
		if first, second := lost.look(), lost.look(); first != nil || (second != nil) != test.forgotten {
			t.Errorf("%s: two looks find %v, %v", name, first, second)
		}
	}
}
