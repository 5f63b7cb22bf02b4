// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// maxAttempts bounds how often a write is planned again after another client changed a revision,
// and how many names are tried.
const maxAttempts = 4

// Archive stores revisions in one namespace. It does not watch ControllerRevisions, since others
// may have many: Load lists them, and from then on an index in memory follows what Store writes.
// Archive notices changes by others when a write fails because of them, and otherwise at the next
// Load or Reload.
//
// All methods may be called from any goroutine, except that Store, Reload and Trim of one object
// are called one after the other, and so is Load.
type Archive struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Namespace of the ControllerRevisions.
	Namespace string

	mu sync.Mutex // guards the fields below
	// writes counts the changes of index, so that Load does not miss one.
	writes int
	// index holds the revisions of each object by UID, ascending. Its values are never modified.
	index map[types.UID][]Revision
}

// Load reads all revisions. It logs revisions that cannot be decoded and does not touch them.
func (a *Archive) Load(ctx context.Context) error {
	for range maxAttempts {
		a.mu.Lock()
		writes := a.writes
		a.mu.Unlock()
		all, err := ListAll(ctx, a.Client, a.Namespace, func(object *appsv1.ControllerRevision, err error) {
			log.FromContext(ctx).Error(err, "A ControllerRevision cannot be read and is ignored", "namespace",
				object.Namespace, "name", object.Name)
		})
		if err != nil {
			return err
		}
		index := map[types.UID][]Revision{}
		for _, r := range all {
			index[r.UID] = append(index[r.UID], r)
		}
		if a.replace(index, writes) {
			return nil
		}
	}
	return errOthers
}

// replace replaces the index, unless it has changed since it had so many writes.
func (a *Archive) replace(index map[types.UID][]Revision, writes int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.writes != writes {
		return false
	}
	a.index = index
	return true
}

// Revisions returns the revisions of an object, by ascending number. They are read-only.
func (a *Archive) Revisions(uid types.UID) []Revision {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.index[uid]
}

// Keep forgets all objects that do not exist. The garbage collector deletes their
// ControllerRevisions.
func (a *Archive) Keep(exists func(types.UID) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid := range a.index {
		if !exists(uid) {
			delete(a.index, uid)
		}
	}
}

// Stored is a revision as it is stored.
type Stored struct {
	Revision
	// Again is the revision as it was before if an older one became the newest again, nil
	// otherwise.
	Again *Revision
}

// Store makes sure that a revision is stored. It writes nothing if it is.
//
// latest: the spec was accepted and is active, so it becomes the newest revision. Otherwise it is a
// last good spec that stays active: see plan.
func (a *Archive) Store(ctx context.Context, want *Revision, latest bool) (*Stored, error) {
	for attempt := 0; ; attempt++ {
		c, err := plan(a.Revisions(want.UID), want, latest)
		if err != nil {
			return nil, fmt.Errorf("comparing the revisions of %s %q: %w", want.Kind, want.ObjectName, err)
		}
		switch {
		case c.create != nil:
			err = a.create(ctx, c.create)
		case c.update != nil:
			err = a.update(ctx, c.update)
		}
		if errors.Is(err, errOthers) && attempt < maxAttempts {
			if err := a.Reload(ctx, want.UID); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		have := a.Revisions(want.UID)
		at, err := find(have, want)
		if err != nil || at < 0 {
			return nil, fmt.Errorf("the revision of %s %q was stored and cannot be found: %w", want.Kind,
				want.ObjectName, err)
		}
		return &Stored{Revision: have[at], Again: c.again}, nil
	}
}

// Reload reads the revisions of one object.
func (a *Archive) Reload(ctx context.Context, uid types.UID) error {
	revisions, err := list(ctx, a.Client, a.Namespace, client.MatchingLabels{LabelUID: string(uid)}, nil)
	if err == nil && !reflect.DeepEqual(revisions, a.Revisions(uid)) { // a change would delay Load
		a.change(uid, func([]Revision) []Revision { return revisions })
	}
	return err
}

// errOthers means that the index differs from the API server.
var errOthers = errors.New("another client has changed it")

func (a *Archive) create(ctx context.Context, r *Revision) error {
	text, err := content(r)
	if err != nil {
		return err
	}
	for attempt := range maxAttempts {
		r.Name = revisionName(r.Kind, r.ObjectName, r.UID, text, attempt)
		object, err := Encode(r, a.Namespace)
		if err != nil {
			return err
		}
		err = a.Client.Create(ctx, object)
		if err == nil {
			r.Created = object.CreationTimestamp.Time
			if r.Kind == KindPolicy {
				policy := *r.Policy
				policy.Revision = r.Name
				r.Policy = &policy
			}
			a.put(*r)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating ControllerRevision %s/%s: %w", a.Namespace, r.Name, err)
		}
		// Another replica created it, or another client changed it.
		var there appsv1.ControllerRevision
		if err := a.Client.Get(ctx, client.ObjectKeyFromObject(object), &there); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading ControllerRevision %s/%s: %w", a.Namespace, r.Name, err)
		} else if err != nil {
			return errOthers
		}
		if other, err := Decode(&there); err == nil && other.UID == r.UID {
			if otherText, err := content(other); err == nil && otherText == text {
				return errOthers
			}
		}
	}
	return fmt.Errorf("creating ControllerRevision %s/%s: this name and %d others are in use", a.Namespace, r.Name,
		maxAttempts-1)
}

func (a *Archive) update(ctx context.Context, r *Revision) error {
	values := map[string]any{}
	for _, name := range activationAnnotations {
		values[name] = nil // removes the value of the last activation
	}
	for name, value := range annotations(r) {
		values[name] = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}, "revision": r.Number})
	if err != nil {
		return err
	}
	object := &appsv1.ControllerRevision{}
	object.Namespace, object.Name = a.Namespace, r.Name
	switch err := a.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); {
	case apierrors.IsNotFound(err):
		return errOthers
	case err != nil:
		return fmt.Errorf("updating ControllerRevision %s/%s: %w", a.Namespace, r.Name, err)
	}
	a.put(*r)
	return nil
}

// Trim deletes the oldest revisions of an object except for the newest and limit others. Call it
// when the newest runs and no status names an older one. It logs revisions that it cannot delete:
// the next call tries again.
func (a *Archive) Trim(ctx context.Context, uid types.UID, limit int) {
	for _, r := range beyond(a.Revisions(uid), limit) {
		object := &appsv1.ControllerRevision{}
		object.Namespace, object.Name = a.Namespace, r.Name
		if err := client.IgnoreNotFound(a.Client.Delete(ctx, object)); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return // the caller does not wait for it
			}
			log.FromContext(ctx).Error(err, "Deleting a ControllerRevision beyond the limit failed", "namespace",
				a.Namespace, "name", r.Name)
			continue
		}
		a.change(uid, func(revisions []Revision) []Revision { return without(revisions, r.Name) })
	}
}

// put puts a revision into the index, in place of the last one of the same name.
func (a *Archive) put(r Revision) {
	a.change(r.UID, func(revisions []Revision) []Revision {
		next := append(without(revisions, r.Name), r)
		Sort(next)
		return next
	})
}

// change changes the revisions of an object.
func (a *Archive) change(uid types.UID, f func([]Revision) []Revision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.index == nil {
		a.index = map[types.UID][]Revision{}
	}
	a.index[uid] = f(a.index[uid])
	a.writes++
}

// without returns a copy of revisions without the revisions of a name.
func without(revisions []Revision, name string) []Revision {
	return slices.DeleteFunc(slices.Clone(revisions), func(r Revision) bool { return r.Name == name })
}
