// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/preemption"
)

const namespace = metav1.NamespaceDefault

// addNode puts a node with room for ten pods into the cache only.
func (e *testEnv) addNode(t *testing.T, name string, pods ...*corev1.Pod) {
	t.Helper()
	room := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10"),
		corev1.ResourceCPU: resource.MustParse("1")}
	e.cache.AddNode(logr.Discard(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	})
	for _, pod := range pods {
		must(t, e.cache.AddPod(logr.Discard(), pod))
	}
	must(t, e.cache.UpdateSnapshot(logr.Discard(), e.snapshot))
}

// volumes creates one volume and several claims that it would fit, to be bound when a pod comes,
// and waits until the binder has them. They remain, because only a controller could release deleted
// ones.
func (e *testEnv) volumes(t *testing.T, claims ...string) {
	t.Helper()
	class := rand.String(8)
	_, err := e.client.StorageV1().StorageClasses().Create(e.ctx, &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: class},
		Provisioner:       "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	must(t, err)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume, err := e.client.CoreV1().PersistentVolumes().Create(e.ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, StorageClassName: class,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	volume.Status.Phase = corev1.VolumeAvailable
	_, err = e.client.CoreV1().PersistentVolumes().UpdateStatus(e.ctx, volume, metav1.UpdateOptions{})
	must(t, err)
	for _, claim := range claims {
		_, err := e.client.CoreV1().PersistentVolumeClaims(namespace).Create(e.ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: claim},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: size},
			},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	core := e.scope.Core().V1()
	eventually(t, func(g gomega.Gomega) {
		for _, claim := range claims {
			_, err := core.PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(claim)
			g.Expect(err).NotTo(gomega.HaveOccurred())
		}
		known, err := core.PersistentVolumes().Lister().Get(volume.Name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(known.Status.Phase).To(gomega.Equal(corev1.VolumeAvailable))
		_, err = e.scope.Storage().V1().StorageClasses().Lister().Get(class)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		// The binder receives claims and volumes later than the listers.
		for _, claim := range claims {
			pod := claimant(claim)
			podClaims, err := e.Durable.binder.GetPodVolumeClaims(logr.Discard(), pod)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			_, reasons, err := e.Durable.binder.FindPodVolumes(logr.Discard(), pod, podClaims, &corev1.Node{})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(reasons).To(gomega.BeEmpty())
		}
	}).Should(gomega.Succeed())
}

func claimant(claim string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: claim, Namespace: namespace, UID: "uid"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return pod
}

// fits runs the filters of an instance for a pod on a node.
func (e *testEnv) fits(t *testing.T, p *Instance, pod *corev1.Pod, nodeName string) (fwk.CycleState, *fwk.Status) {
	t.Helper()
	state := schedframework.NewCycleState()
	if _, status, _ := p.Framework.RunPreFilterPlugins(e.ctx, state, pod); !status.IsSuccess() {
		t.Fatalf("PreFilter: %v", status)
	}
	node, err := e.snapshot.NodeInfos().Get(nodeName)
	must(t, err)
	return state, p.Framework.RunFilterPluginsWithNominatedPods(e.ctx, state, pod, node)
}

// Without shared state both halves of this rule are broken, as with two profiles of kube-scheduler.
func TestRule6StateThatOutlivesAnInstanceIsSharedByAll(t *testing.T) {
	t.Run("a volume that one instance assumed for a pod is not assumed for another pod by the next",
		func(t *testing.T) {
			e := newTestEnv(t, nil)
			e.addNode(t, "n1")
			first, second := claimant(rand.String(8)), claimant(rand.String(8))
			e.volumes(t, first.Name, second.Name)
			second.UID = "another"

			a := e.build(t, object("mine"))
			state, status := e.fits(t, a, first, "n1")
			if !status.IsSuccess() {
				t.Fatalf("the first pod: %v", status)
			}
			if status := a.Framework.RunReservePluginsReserve(e.ctx, state, first, "n1"); !status.IsSuccess() {
				t.Fatalf("reserving for the first pod: %v", status)
			}
			b := e.build(t, object("mine"))
			other := e.build(t, object("other"))
			for _, p := range []*Instance{a, b, other} {
				if _, status := e.fits(t, p, second, "n1"); !status.IsRejected() ||
					status.Plugin() != names.VolumeBinding {
					t.Errorf("the second pod is not refused by VolumeBinding of profile %q: %v", p.SchedulerName(),
						status)
				}
			}
			a.Framework.RunReservePluginsUnreserve(e.ctx, state, first, "n1")
			if _, status := e.fits(t, b, second, "n1"); !status.IsSuccess() {
				t.Errorf("the volume is free again, but the second pod is refused: %v", status)
			}
		})
}

// stuckBinder does not complete the binding of volumes before its context ends.
type stuckBinder struct {
	volumebinding.SchedulerVolumeBinder
}

func (stuckBinder) BindPodVolumes(ctx context.Context, _ *corev1.Pod, _ *volumebinding.PodVolumes) error {
	<-ctx.Done()
	return fmt.Errorf("binding volumes: %w", context.Cause(ctx))
}

func TestPreemption(t *testing.T) {
	t.Run("is carried out by the process's evictor", func(t *testing.T) {
		p := newTestEnv(t, nil).build(t, object("mine"))
		if _, ok := p.instances[names.DefaultPreemption].(*preemption.Plugin); !ok {
			t.Errorf("the plugin is %T", p.instances[names.DefaultPreemption])
		}
	})
	t.Run("is upstream's own where it is not asynchronous", func(t *testing.T) {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
			kubefeatures.SchedulerAsyncPreemption, false)
		p := newTestEnv(t, nil).build(t, object("mine"))
		if _, ok := p.instances[names.DefaultPreemption].(*defaultpreemption.DefaultPreemption); !ok {
			t.Errorf("the plugin is %T", p.instances[names.DefaultPreemption])
		}
	})
}

func TestTheSharedVolumeBinder(t *testing.T) {
	t.Run("gives up after the time that the profile allows", func(t *testing.T) {
		b := &boundedBinder{SchedulerVolumeBinder: stuckBinder{}, timeout: time.Millisecond}
		err := b.BindPodVolumes(quiet(t), &corev1.Pod{}, nil)
		if err == nil || err.Error() != "binding volumes: volumes were not bound within 1ms" {
			t.Errorf("got the error %v", err)
		}
	})
	t.Run("has the time-out of the profile's arguments", func(t *testing.T) {
		e := newTestEnv(t, nil)
		cfg := e.resolve(t, object("mine"))
		for i := range cfg.Config.PluginConfig {
			if args, ok := cfg.Config.PluginConfig[i].Args.(*schedconfig.VolumeBindingArgs); ok {
				args.BindTimeoutSeconds = 7
			}
		}
		p, err := e.builder().Build(e.ctx, cfg)
		must(t, err)
		binder := p.instances[names.VolumeBinding].(*volumebinding.VolumeBinding).Binder.(*boundedBinder)
		if binder.timeout != 7*time.Second || binder.SchedulerVolumeBinder != e.Durable.binder {
			t.Errorf("time-out %v, shared: %v", binder.timeout, binder.SchedulerVolumeBinder == e.Durable.binder)
		}
		p.Discard(logr.Discard())
		<-p.Closed()
	})
	for seconds, want := range map[int64]time.Duration{0: time.Second, 1: time.Second, 600: 10 * time.Minute} {
		if got := bindTimeout(&schedconfig.VolumeBindingArgs{BindTimeoutSeconds: seconds}); got != want {
			t.Errorf("%d seconds are %v", seconds, got)
		}
	}
}
