// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package groupstatus

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientinformers "k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// retry is the time between attempts to get the informer of PodGroups.
const retry = time.Second

// watch watches PodGroups, and the pods with their label. It shares the informer of PodGroups with
// the scheduler, whose informer of pods has none that have ended. So there is one of their own for
// these pods, on the leader only. It begins when there is a PodGroup for the first time.
//
// The manager calls Start and WaitForSync when this replica leads. The workers begin afterwards.
type watch struct {
	client clientset.Interface
	source *informers.Source
	// all requests that all groups are reconciled.
	all chan struct{}
	// synced is closed when groups and pods are set and have synced.
	synced chan struct{}
	groups toolscache.Store
	pods   toolscache.Indexer
}

var _ source.SyncingSource = (*watch)(nil)

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

func newWatch(client clientset.Interface, source *informers.Source) *watch {
	return &watch{client: client, source: source, all: make(chan struct{}, 1), synced: make(chan struct{})}
}

// requestAll requests that all groups are reconciled. It never waits.
func (w *watch) requestAll() {
	select {
	case w.all <- struct{}{}:
	default:
	}
}

// Start begins to watch, until ctx ends.
func (w *watch) Start(ctx context.Context, queue requests) error {
	go func() {
		_ = wait.PollUntilContextCancel(ctx, retry, true, func(ctx context.Context) (bool, error) {
			err := w.run(ctx, queue)
			if err != nil {
				log.FromContext(ctx).Info("Waiting for the API server to answer whether it serves PodGroups", "err",
					err.Error())
			}
			return err == nil, nil
		})
	}()
	return nil
}

// WaitForSync waits until there is a PodGroup, and the pods have been listed.
func (w *watch) WaitForSync(ctx context.Context) error {
	select {
	case <-w.synced:
	case <-ctx.Done(): // the process ends
	}
	return nil
}

// run gets the informer of PodGroups, which is empty while the API server does not serve them, and
// follows it until ctx ends.
func (w *watch) run(ctx context.Context, queue requests) error {
	scope := w.source.NewScope()
	defer scope.Close()
	groups, err := scope.Dynamic(podgroup.Resource)
	if err = errors.Join(err, scope.Err()); err != nil {
		return err
	}
	return w.follow(ctx, queue, groups)
}

// follow adds to the queue each group that has changed, or whose pods have, until ctx ends. All of
// its goroutines have ended when it returns.
func (w *watch) follow(ctx context.Context, queue requests, groups toolscache.SharedIndexInformer) error {
	enqueue := func(group string) {
		if key, err := toolscache.ParseObjectName(group); err == nil {
			queue.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName(key)}, settle)
		}
	}
	w.groups = groups.GetStore()
	if err := w.listenToGroups(ctx, groups, enqueue); err != nil || ctx.Err() != nil {
		return err
	}
	factory := clientinformers.NewSharedInformerFactoryWithOptions(w.client, 0, clientinformers.WithTransform(trim),
		clientinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = podgroup.Label }))
	pods := factory.Core().V1().Pods().Informer()
	w.pods = pods.GetIndexer()
	if err := listenToPods(pods, enqueue); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	factory.StartWithContext(ctx)
	defer func() { cancel(); factory.Shutdown() }()
	if factory.WaitForCacheSyncWithContext(ctx).Err != nil {
		return nil // ctx has ended
	}
	close(w.synced)
	for {
		select {
		case <-w.all:
			for _, key := range w.groups.ListKeys() {
				enqueue(key)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// listenToGroups adds a handler of PodGroups, and returns when there is a PodGroup or ctx ends.
func (w *watch) listenToGroups(ctx context.Context, groups toolscache.SharedIndexInformer,
	enqueue func(group string)) error {
	first, stop := context.WithCancel(ctx)
	defer stop()
	changed := func(object any) {
		if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			enqueue(key)
			stop()
		}
	}
	_, err := groups.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: changed,
	})
	if err == nil {
		<-first.Done()
	}
	return err
}

// member is what is kept of a pod that names a group. A Pod would take several times as much
// memory.
type member struct {
	metav1.ObjectMeta // namespace, name, UID and resource version
	// group is the key of the group, as namespace/name. It is empty if the pod belongs to a
	// PodGroup of Kubernetes, although it has the label.
	group         string
	schedulerName string
	phase         corev1.PodPhase
	owners        []string // their names
}

// trim is the transform of the informer of pods. It gets objects that it has trimmed before, too.
func trim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	m := &member{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.ResourceVersion},
		schedulerName: pod.Spec.SchedulerName,
		phase:         pod.Status.Phase,
	}
	if key := podgroup.KeyOf(pod); key.Source == podgroup.SchedulerPlugins && key.Name != "" {
		m.group = key.String()
	}
	for i := range pod.OwnerReferences {
		m.owners = append(m.owners, pod.OwnerReferences[i].Name)
	}
	return m, nil
}

// byGroup is the index of members by their groups.
const byGroup = "group"

// listenToPods indexes members by their groups, and enqueues each group whose members have changed
// in a way that its status may depend on.
func listenToPods(pods toolscache.SharedIndexInformer, enqueue func(group string)) error {
	err := pods.AddIndexers(toolscache.Indexers{byGroup: func(object any) ([]string, error) {
		if m, ok := object.(*member); ok && m.group != "" {
			return []string{m.group}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return err
	}
	changed := func(object any) {
		if gone, stale := object.(toolscache.DeletedFinalStateUnknown); stale {
			object = gone.Obj
		}
		if m, ok := object.(*member); ok && m.group != "" {
			enqueue(m.group)
		}
	}
	_, err = pods.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		UpdateFunc: func(before, after any) {
			b, okBefore := before.(*member)
			a, okAfter := after.(*member)
			if okBefore && okAfter && b.UID == a.UID && b.group == a.group && b.phase == a.phase {
				return
			}
			changed(before)
			changed(after)
		},
		DeleteFunc: changed,
	})
	return err
}

// membersOf returns the members of a group.
func (w *watch) membersOf(group string) ([]*member, error) {
	objects, err := w.pods.ByIndex(byGroup, group)
	if err != nil {
		return nil, err
	}
	members := make([]*member, 0, len(objects))
	for _, object := range objects {
		if m, ok := object.(*member); ok {
			members = append(members, m)
		}
	}
	return members, nil
}
