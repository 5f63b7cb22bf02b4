// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/namedwatch"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// firstLook is how long a reconcile waits for the first read of a Secret. After that, profiles run
// without those that need the Secret, until it is read.
const firstLook = 5 * time.Second

var errNoAnswer = errors.New("the API server has not answered yet")

// secretWatches watches the Secrets that policies name, each with a watch by its name, and keeps
// only their TLS material. So livesched needs no right to read all Secrets, and holds no Secret
// that no policy names.
//
// The reconciler's worker calls its methods. Watches have their own goroutines.
type secretWatches struct {
	client clientset.Interface
	// changed requests a pass. Watches call it when a Secret has changed.
	changed func()
	watches map[types.NamespacedName]*secretWatch
}

// read returns the named Secrets that exist, and stops watching all others. Watches end with ctx.
func (s *secretWatches) read(ctx context.Context,
	named sets.Set[types.NamespacedName]) map[types.NamespacedName]resolve.Secret {
	if s.watches == nil {
		s.watches = map[types.NamespacedName]*secretWatch{}
	}
	for name, watched := range s.watches {
		if !named.Has(name) {
			watched.stop()
			delete(s.watches, name)
		}
	}
	for name := range named {
		if s.watches[name] == nil {
			s.watches[name] = s.start(ctx, name)
		}
	}
	secrets := map[types.NamespacedName]resolve.Secret{}
	for name, watched := range s.watches {
		if secret, exists := watched.read(ctx); exists {
			secrets[name] = secret
		}
	}
	return secrets
}

// secretWatch watches one Secret.
type secretWatch struct {
	name     types.NamespacedName
	informer toolscache.SharedIndexInformer
	stop     context.CancelFunc
	// heard is closed when the Secret was read, or when reading it was refused. read does not wait
	// for it beyond deadline.
	heard    chan struct{}
	deadline time.Time
	// lastErr is the error of the last read that failed.
	lastErr atomic.Pointer[error]
}

func (s *secretWatches) start(ctx context.Context, name types.NamespacedName) *secretWatch {
	ctx, stop := context.WithCancel(ctx)
	watched := &secretWatch{name: name, stop: stop, heard: make(chan struct{}), deadline: time.Now().Add(firstLook)}
	hear := sync.OnceFunc(func() { close(watched.heard) })
	var err error
	watched.informer, err = namedwatch.NewInformer(s.client, s.client.CoreV1().Secrets(name.Namespace), name.Name,
		&corev1.Secret{}, s.changed)
	err = errors.Join(err, watched.informer.SetTransform(onlyTLS),
		watched.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector, err error) {
			watched.lastErr.Store(&err)
			if apierrors.IsForbidden(err) {
				hear()
			}
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
		}))
	if err != nil {
		// Only an informer that runs refuses these.
		watched.lastErr.Store(&err)
		hear()
		return watched
	}
	go watched.informer.RunWithContext(ctx)
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), watched.informer.HasSynced) {
			hear()
			s.changed() // also if there is no such Secret
		}
	}()
	return watched
}

// onlyTLS removes everything from a Secret but the TLS material and the label of the policy that
// may use it.
func onlyTLS(object any) (any, error) {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return object, nil // a Secret that is gone
	}
	kept := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID,
			ResourceVersion: secret.ResourceVersion},
		Data: map[string][]byte{},
	}
	policy, permitted := secret.Labels[v1alpha1.LabelSchedulingPolicy]
	if !permitted {
		return kept, nil // no policy may use it
	}
	kept.Labels = map[string]string{v1alpha1.LabelSchedulingPolicy: policy}
	for _, key := range []string{resolve.SecretCA, resolve.SecretCertificate, resolve.SecretKey} {
		if value, ok := secret.Data[key]; ok {
			kept.Data[key] = value
		}
	}
	return kept, nil
}

// refused reports whether reading the Secret was refused.
func (s *secretWatch) refused() bool {
	select {
	case <-s.heard:
		return true
	default:
		return false
	}
}

// read returns the last known state of the Secret, and whether it exists.
func (s *secretWatch) read(ctx context.Context) (secret resolve.Secret, exists bool) {
	ctx, cancel := context.WithDeadline(ctx, s.deadline)
	defer cancel()
	select {
	case <-s.heard:
	case <-ctx.Done():
	}
	if !s.informer.HasSynced() {
		why := errNoAnswer
		if last := s.lastErr.Load(); last != nil {
			why = *last
		}
		if s.refused() {
			return resolve.UnreadableSecret(why), true
		}
		return resolve.UnansweredSecret(why), true
	}
	object, exists, err := s.informer.GetStore().GetByKey(s.name.String())
	if err != nil {
		return resolve.UnreadableSecret(err), true
	}
	if !exists {
		return resolve.Secret{}, false
	}
	return resolve.NewSecret(object.(*corev1.Secret)), true
}
