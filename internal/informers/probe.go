// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

const (
	// probeInterval is the time between looks for missing kinds. Each look costs a request or two
	// for each kind, and nothing if none is missing.
	probeInterval = 30 * time.Second
	// probeTimeout bounds the first lists of kinds that are served now.
	probeTimeout = 30 * time.Second
)

// Run looks for missing kinds until ctx ends.
func (s *Source) Run(ctx context.Context) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.Probe(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// found is the shared informer of a kind that was missing.
type found struct {
	kind   kind
	shared toolscache.SharedIndexInformer
}

// Probe asks the API server for the kinds that are missing in open scopes. If it serves one now,
// for instance after an upgrade of the control plane or the installation of a custom resource, the
// informers of these scopes get its objects once they are listed. Nothing needs to be built again.
func (s *Source) Probe(ctx context.Context) {
	missing := map[kind][]*informer{}
	s.mu.Lock()
	for i := range s.late {
		missing[i.kind] = append(missing[i.kind], i)
	}
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	served := map[kind]found{}
	for _, k := range slices.SortedFunc(maps.Keys(missing), kind.compare) { // so that runs can be repeated
		if now, ok := s.servedAs(k); ok {
			if shared, err := s.acquire(now); err == nil {
				served[k] = found{now, shared}
			}
		}
	}
	for k, f := range served {
		if toolscache.WaitFor(ctx, "", f.shared.HasSyncedChecker()) {
			s.logger.Info("The API server serves a kind that was missing", "kind", f.kind.String())
			for _, i := range missing[k] {
				i.scope.complete(i, f)
			}
			select {
			case s.completed <- struct{}{}:
			default: // the reader knows already
			}
		} else {
			s.logger.Info("The API server serves a kind that was missing, but it cannot be listed; trying again",
				"kind", f.kind.String(), "err", lastWatchError(f.shared))
		}
		s.release(f.kind)
	}
}

// servedAs returns the kind under which the API server serves a missing kind by now. A resource
// whose kind was unknown is missing under its own name: see Scope.Dynamic.
func (s *Source) servedAs(k kind) (kind, bool) {
	if _, err := s.mapper.RESTMapping(k.GroupKind(), k.Version); err == nil {
		return k, true
	}
	if s.scheme.Recognizes(k.GroupVersionKind) {
		return kind{}, false
	}
	gvk, err := s.mapper.KindFor(k.GroupVersion().WithResource(k.Kind))
	return kind{gvk, k.form}, err == nil
}

// complete gives a late informer the shared one, unless the scope is closed.
func (s *Scope) complete(i *informer, f found) {
	shared, err := s.source.acquire(f.kind)
	if err != nil {
		return // the next probe tries again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	late := i.SharedIndexInformer.(*lateInformer)
	if s.closed || !late.isEmpty() {
		s.source.release(f.kind)
		return
	}
	i.acquired = &f.kind
	s.source.forget(i)
	if err := late.become(shared, s.source); err != nil {
		s.source.logger.Error(err, "Not everything that reads a kind gets its objects, which was missing before",
			"kind", f.kind.String())
	}
}

// expect makes Probe look for the kind of a late informer.
func (s *Source) expect(i *informer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late[i] = struct{}{}
}

// forget ends what expect began.
func (s *Source) forget(i *informer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.late, i)
}

// missingKinds returns the kinds of the informers that are late, sorted.
func missingKinds(informers map[kind]*informer) []schema.GroupVersionKind {
	kinds := map[schema.GroupVersionKind]struct{}{}
	for k, i := range informers {
		if late, ok := i.SharedIndexInformer.(*lateInformer); ok && late.isEmpty() {
			kinds[k.GroupVersionKind] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(kinds), compareKinds)
}
