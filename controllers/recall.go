// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

const (
	// recallPatience is how long to try to read the stored revisions before profiles run without
	// them: scheduling with the current specs is better than not scheduling.
	recallPatience = 10 * time.Second
	// readTimeout bounds one read, so that a read that hangs is followed by another one. It is
	// longer than the minute that the API server grants a request.
	readTimeout = 70 * time.Second
	// liveFor is how long the objects that a new leader has read replace older ones in the cache.
	liveFor = time.Minute
)

// errReading is the error while a read of the stored revisions takes long.
var errReading = errors.New("the API server has not answered yet")

// memory holds the state of reading the stored revisions. Every replica reads them before it
// resolves anything, and again when it becomes the leader, since the last leader may have run specs
// that this replica has not seen, or when etcd was restored from a backup. Only the leader writes.
type memory struct {
	// recalled reports whether the revisions were read, and leading whether they were read as the
	// leader. From then on, the index of Archive equals the stored revisions, apart from changes
	// that others make.
	recalled, leading bool
	// failed is the error of the last attempt to read the revisions. since is when the first
	// attempt began, zero if they were read.
	failed error
	since  time.Time
	// versions are the resource versions of the objects in the cache in the last pass, by UID.
	versions map[types.UID]string
	// wentBack are the UIDs of the objects whose version went back since the last pass that looked
	// at the roll-outs.
	wentBack sets.Set[types.UID]
	// live are the objects as the API server had them when this replica, as the leader, read the
	// revisions.
	live liveObjects
	// reading is the read under way, nil if there is none.
	reading *revisionsRead
	// failures counts the passes in a row after which the revisions are not read.
	failures int
}

// retryAfter returns how long to wait until the revisions are read again, 0 if they were read. It
// is called once after each pass.
func (m *memory) retryAfter() time.Duration {
	if m.failed == nil {
		m.failures = 0
		return 0
	}
	m.failures++
	return min(firstRetry<<min(m.failures-1, 10), lastRetry)
}

// recall reads the stored revisions if that is due. Profiles fall back on them if the current specs
// are invalid. It returns an error while it is too early to go on without them.
func (r *ProfileReconciler) recall(ctx context.Context, p *pass) error {
	m := &r.memory
	if m.seesRestore(&p.objects) && p.leading {
		// A roll-out that begins may be one that was restored.
		m.recalled, m.live, r.last.decided = false, liveObjects{}, nil
	}
	if m.recalled && (m.leading || !p.leading) {
		p.behind = m.live.replaceOlder(&p.objects, r.Clock.Now())
		return nil
	}
	if err := r.readRevisions(ctx, p.leading); err != nil {
		if m.failed == nil || !errors.Is(err, errReading) { // the last error has more information
			m.failed = err
		}
		if !apierrors.IsForbidden(err) && r.Clock.Since(m.since) < recallPatience {
			return err
		}
		log.FromContext(ctx).Error(err, "The stored revisions cannot be read; continuing without them")
		return nil
	}
	ledBefore := m.leading
	m.recalled, m.leading, m.failed, m.since = true, p.leading, nil, time.Time{}
	p.behind = m.live.replaceOlder(&p.objects, r.Clock.Now())
	good := resolve.LastGood{Profiles: map[string][]resolve.GoodProfile{}, Policies: map[string][]resolve.GoodPolicy{}}
	for i := range p.objects.profiles {
		object := &p.objects.profiles[i]
		stored, ran := r.Archive.Revisions(object.UID), r.last.good.Profiles[object.Name]
		if !ledBefore && len(stored) > 0 && r.last.active.onlyTries(object) {
			ran = nil
		}
		good.Profiles[object.Name] = goodProfiles(stored, ran, r.last.good.Policies)
	}
	for i := range p.objects.policies {
		object := &p.objects.policies[i]
		good.Policies[object.Name] = goodPolicies(r.Archive.Revisions(object.UID), r.last.good.Policies[object.Name])
	}
	r.last.good = good
	return nil
}

// awaited reports whether profiles run without the stored revisions, which are still to be read. It
// is false if they must not be read.
func (m *memory) awaited() bool { return m.failed != nil && !apierrors.IsForbidden(m.failed) }

// isBlind reports whether that is so since this replica began to lead: it does not know what the
// last leader has decided.
func (m *memory) isBlind() bool { return m.awaited() && !m.leading }

// seesRestore reports whether etcd was restored from a backup since the last pass: an object has an
// earlier version than before, or one that was not there has a status. It takes note of the
// versions.
func (m *memory) seesRestore(set *objects) (restored bool) {
	before := m.versions
	m.versions = map[types.UID]string{}
	note := func(object client.Object, reported bool) {
		version, known := before[object.GetUID()]
		if known && isLater(version, object.GetResourceVersion()) {
			m.wentBack = m.wentBack.Union(sets.New(object.GetUID()))
			restored = true
		}
		restored = restored || before != nil && !known && reported
		m.versions[object.GetUID()] = object.GetResourceVersion()
	}
	for i := range set.profiles {
		note(&set.profiles[i], set.profiles[i].Status.ObservedGeneration > 0)
	}
	for i := range set.policies {
		note(&set.policies[i], set.policies[i].Status.ObservedGeneration > 0)
	}
	return restored
}

// onlyTries reports whether the profile that runs for an object on this replica is, as far as the
// status of the object tells, at most tried by the leader. A replica that did not know the stored
// revisions has run it at once, since nothing had run before.
func (a *active) onlyTries(object *v1alpha1.SchedulerProfile) bool {
	for _, cfg := range a.profiles {
		if cfg.UID != object.UID || !cfg.Schedules() || !resolve.IsCanary(&cfg.Source.Spec) {
			continue
		}
		status := ptr.Deref(object.Status.Rollout, v1alpha1.RolloutStatus{})
		promoted := status.CanaryRevision == cfg.Revision && status.Stage == string(rollout.Promoted)
		return !promoted && status.StableRevision != cfg.Revision
	}
	return false
}

// liveObjects are the objects as the API server had them at one time. Informers may not have
// received yet what the last leader has decided by.
type liveObjects struct {
	objects
	read time.Time
}

// replaceOlder replaces the objects of a set that are older than the live ones, and reports whether
// there were any. After liveFor, it leaves the set as it is: most likely, what informers still have
// not received was lost when etcd was restored. It adds no objects that are missing: most of those
// were deleted.
func (l *liveObjects) replaceOlder(set *objects, now time.Time) (behind bool) {
	if now.Sub(l.read) > liveFor {
		return false
	}
	profiles, policies := replaceOlder(set.profiles, l.profiles), replaceOlder(set.policies, l.policies)
	return profiles || policies
}

// replaceOlder is liveObjects.replaceOlder for the objects of one kind.
func replaceOlder[T any, P interface {
	*T
	client.Object
}](cached, live []T) (behind bool) {
	byUID := make(map[types.UID]P, len(live))
	for i := range live {
		byUID[P(&live[i]).GetUID()] = &live[i]
	}
	for i := range cached {
		object := P(&cached[i])
		newer := byUID[object.GetUID()]
		if newer != nil && isLater(newer.GetResourceVersion(), object.GetResourceVersion()) {
			cached[i], behind = *newer, true
		}
	}
	return behind
}

// revisionsRead is one read of the stored revisions, and of the objects by a leader. Its goroutine
// sets live and err and then closes done. If this replica has just begun to lead, the reporter
// stores nothing meanwhile: until the read has succeeded, passes report only that the revisions
// cannot be read.
type revisionsRead struct {
	leading bool // whether it began when this replica led
	done    chan struct{}
	live    liveObjects
	err     error
}

// readRevisions reads the stored revisions. It does not wait for a read that hangs, beyond the
// patience that all attempts share: a later call returns the result.
func (r *ProfileReconciler) readRevisions(ctx context.Context, leading bool) error {
	m := &r.memory
	if m.since.IsZero() {
		m.since = r.Clock.Now()
	}
	if m.reading == nil {
		m.reading = r.startRead(ctx, leading)
	}
	patience := time.NewTimer(recallPatience - r.Clock.Since(m.since))
	defer patience.Stop()
	read := m.reading
	select {
	case <-read.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-patience.C:
		select {
		case <-read.done: // both were
		default:
			return errReading
		}
	}
	m.reading = nil
	if leading && !read.leading { // the last leader may have stored more
		return r.readRevisions(ctx, leading)
	}
	m.live = read.live
	return read.err
}

// startRead begins a read, which goes on after the pass.
func (r *ProfileReconciler) startRead(ctx context.Context, leading bool) *revisionsRead {
	read := &revisionsRead{leading: leading, done: make(chan struct{})}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		defer close(read.done)
		if read.err = r.Archive.Load(ctx); read.err == nil && leading {
			read.live.objects, read.err = list(ctx, r.Direct)
			read.live.read = r.Clock.Now()
		}
	}()
	return read
}

// goodProfiles returns the stored revisions of a profile, the latest first. The specs that this
// replica has run come first if they are newer: then the last leader did not store them before it
// ended. Otherwise the stored revisions are at least as new. policies has the specs of policies
// that this replica has resolved.
func goodProfiles(stored []history.Revision, ran []resolve.GoodProfile,
	policies map[string][]resolve.GoodPolicy) []resolve.GoodProfile {
	var ranWith []resolve.GoodPolicy
	for i := range ran {
		if policy := ran[i].Policy; policy != nil {
			ranWith = append(ranWith, *policy)
		}
	}
	var all []resolve.GoodProfile
	for i := len(stored) - 1; i >= 0; i-- {
		s := &stored[i]
		if s.Profile == nil {
			continue
		}
		good := resolve.GoodProfile{UID: s.UID, Generation: s.Generation, Spec: *s.Profile}
		if s.Policy != nil {
			good.Policy = ptr.To(goodPolicy(s.Policy, slices.Concat(ranWith, policies[s.Policy.Name])))
		}
		all = append(all, good)
	}
	return latestFirst(all, ran, func(a, b *resolve.GoodProfile) bool { return a.UID == b.UID && laterProfile(a, b) })
}

// latestFirst returns the stored specs, after the one that ran last if that is later.
func latestFirst[T any](stored, ran []T, later func(ran, stored *T) bool) []T {
	switch {
	case len(ran) == 0:
		return stored
	case len(stored) == 0:
		return ran
	case later(&ran[0], &stored[0]):
		return append(ran[:1:1], stored...)
	default:
		return stored
	}
}

func laterProfile(a, b *resolve.GoodProfile) bool {
	if a.Generation != b.Generation {
		return a.Generation > b.Generation
	}
	return a.Policy != nil && b.Policy != nil && a.Policy.UID == b.Policy.UID &&
		a.Policy.Generation > b.Policy.Generation
}

// goodPolicies is goodProfiles for a policy.
func goodPolicies(stored []history.Revision, ran []resolve.GoodPolicy) []resolve.GoodPolicy {
	var all []resolve.GoodPolicy
	for i := len(stored) - 1; i >= 0; i-- {
		if stored[i].Policy != nil {
			all = append(all, goodPolicy(stored[i].Policy, ran))
		}
	}
	return latestFirst(all, ran,
		func(a, b *resolve.GoodPolicy) bool { return a.UID == b.UID && a.Generation > b.Generation })
}

// goodPolicy returns a stored policy. Its Secrets are not stored: they are the Secrets of the first
// resolved policy with the same spec. They may have been deleted since. Without any, as
// after a restart, they are read again.
func goodPolicy(p *history.Policy, resolved []resolve.GoodPolicy) resolve.GoodPolicy {
	good := resolve.GoodPolicy{Name: p.Name, UID: p.UID, Generation: p.Generation, Spec: p.Spec}
	for i := range resolved {
		if known := &resolved[i]; known.UID == good.UID && known.Generation == good.Generation && known.Secrets != nil {
			good.Secrets = known.Secrets
			break
		}
	}
	return good
}
