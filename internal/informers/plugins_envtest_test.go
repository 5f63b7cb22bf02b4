// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/livesched/livesched/internal/informers"
)

var _ = Describe("The in-tree plugins", func() {
	It("can all be built on a scope", func(ctx SpecContext) {
		m := startManager(controlPlane.Config())
		shared := newSharedManagers(ctx, m.newScope())
		scope := m.newScope()
		built := shared.build(ctx, scope)
		expectSync(scope)
		Expect(built).To(HaveLen(len(plugins.NewInTreeRegistry())))
		Expect(m.source.Handlers()).To(BeNumerically(">", shared.handlers),
			"VolumeBinding listens to volumes and claims")
	})

	It("leave nothing behind when they are rebuilt, in parallel, while volumes change", func(ctx SpecContext) {
		m := startManager(controlPlane.Config())
		shared := newSharedManagers(ctx, m.newScope())
		buildOnce := func() {
			buildCtx, cancel := context.WithCancel(ctx)
			defer cancel()
			scope := m.source.NewScope()
			defer scope.Close()
			shared.build(buildCtx, scope)
			expectSync(scope)
		}
		buildOnce() // starts the informers
		handlers := m.source.Handlers()
		Expect(handlers).To(Equal(shared.handlers))
		// Some goroutines of the first build may still be ending, and watches that it requested may
		// be beginning. Neither matters next to those that 100 builds would leave behind.
		goroutines := runtime.NumGoroutine()

		stopChanges := changeVolumes(ctx)
		const workers, each = 4, 25
		var builders sync.WaitGroup
		for range workers {
			builders.Go(func() {
				defer GinkgoRecover()
				for range each {
					buildOnce()
				}
			})
		}
		builders.Wait()
		stopChanges()
		Expect(m.source.Handlers()).To(Equal(handlers))
		// Upstream's runtime starts a recorder in each build, which takes up to a second to end.
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<", goroutines+workers*each/2))
	}, SpecTimeout(10*time.Minute))
})

// sharedManagers holds what a scheduler shares between its profiles.
type sharedManagers struct {
	dra      fwk.SharedDRAManager
	csi      fwk.CSIManager
	snapshot *schedcache.Snapshot
	groups   fwk.PodGroupManager
	handlers int // number of handlers that they have added
}

func newSharedManagers(ctx context.Context, scope *informers.Scope) *sharedManagers {
	GinkgoHelper()
	claims := assumecache.NewAssumeCache(GinkgoLogr, scope.Resource().V1().ResourceClaims().Informer(), "ResourceClaim",
		"", nil)
	slices, err := tracker.StartTracker(ctx, tracker.Options{
		SliceInformer: scope.Resource().V1().ResourceSlices(),
		KubeClient:    admin,
	})
	Expect(err).NotTo(HaveOccurred())
	s := &sharedManagers{
		dra:      dynamicresources.NewDRAManager(ctx, claims, slices, scope),
		csi:      nodevolumelimits.NewCSIManager(scope.Storage().V1().CSINodes().Lister()),
		snapshot: schedcache.NewEmptySnapshot(),
		groups:   schedcache.New(ctx, nil, false, false),
		handlers: 1, // of the claims' assume cache
	}
	expectSync(scope)
	return s
}

// build builds every in-tree plugin with default arguments and upstream's runtime as its handle.
func (s *sharedManagers) build(ctx context.Context, scope *informers.Scope) map[string]fwk.Plugin {
	GinkgoHelper()
	configuration, err := latest.Default()
	Expect(err).NotTo(HaveOccurred())
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithClientSet(admin),
		frameworkruntime.WithInformerFactory(scope),
		frameworkruntime.WithSharedDRAManager(s.dra),
		frameworkruntime.WithSharedCSIManager(s.csi),
		frameworkruntime.WithSnapshotSharedLister(s.snapshot),
		frameworkruntime.WithPodGroupManager(s.groups),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	)
	Expect(err).NotTo(HaveOccurred())

	args := map[string]apiruntime.Object{}
	for _, plugin := range configuration.Profiles[0].PluginConfig {
		args[plugin.Name] = plugin.Args
	}
	built := map[string]fwk.Plugin{}
	for name, factory := range plugins.NewInTreeRegistry() {
		plugin, err := factory(ctx, args[name], handle)
		Expect(err).NotTo(HaveOccurred(), "building %s", name)
		built[name] = plugin
	}
	return built
}

// changeVolumes creates a volume and keeps relabelling it until the returned function is called.
func changeVolumes(ctx context.Context) (stop func()) {
	GinkgoHelper()
	volume, err := admin.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "informers-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/v"}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"i":"%d"}}}`, i)
			_, err := admin.CoreV1().PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType, patch,
				metav1.PatchOptions{})
			if ctx.Err() == nil {
				Expect(err).NotTo(HaveOccurred())
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func podNames(lister corev1listers.PodLister, namespace string) ([]string, error) {
	pods, err := lister.Pods(namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names, nil
}
