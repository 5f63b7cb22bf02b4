// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package history

// change is the write that stores a revision. At most one of create and update is set.
type change struct {
	create, update *Revision
	// again is the revision as it was before if a spec becomes active again, nil otherwise.
	again *Revision
}

// plan returns the write after which an object with some revisions (ascending) has the wanted one.
//
// latest: the spec was accepted and is active, so it becomes the newest revision. Otherwise it is a
// last good spec that stays active while the current one is invalid. Then it has to exist, and to
// be the newest if it became active after that one, and the current one came before it was stored.
// If a spec that was read from here is active since the newest cannot run, the order stays.
func plan(have []Revision, want *Revision, latest bool) (change, error) {
	at, err := find(have, want)
	if err != nil {
		return change{}, err
	}
	var c change
	newest := len(have) - 1
	switch {
	case at < 0:
		c.create = numbered(want, have)
	case at < newest && (latest || !sameMetadata(&have[at], want) && isLater(want, &have[newest])):
		c.update = updated(&have[at], want)
		c.update.Number = have[newest].Number + 1
		c.update.Activation = want.Activation
		c.again = &have[at]
	case latest && !sameMetadata(&have[at], want):
		c.update = updated(&have[at], want)
	}
	return c, nil
}

// isLater reports whether a spec is of a later generation than another one, or builds on a later
// generation of the same policy.
func isLater(want, than *Revision) bool {
	if want.Generation != than.Generation || want.Policy == nil || than.Policy == nil ||
		want.Policy.UID != than.Policy.UID {
		return want.Generation > than.Generation
	}
	return want.Policy.Generation > than.Policy.Generation
}

// beyond returns the oldest revisions of an object (ascending), without the newest and limit
// others.
func beyond(have []Revision, limit int) []Revision {
	return have[:max(0, len(have)-1-limit)]
}

// find returns the index of the newest revision that equals a wanted one, -1 if none does.
func find(have []Revision, want *Revision) (int, error) {
	// An object has one spec per generation, so equal generations are enough. This is nearly always
	// the newest revision.
	for i := len(have) - 1; i >= 0; i-- {
		if sameMetadata(&have[i], want) {
			return i, nil
		}
	}
	text, err := content(want)
	if err != nil {
		return 0, err
	}
	for i := len(have) - 1; i >= 0; i-- {
		if sameBehaviour(&have[i], want) {
			return i, nil
		}
		other, err := content(&have[i])
		if err != nil {
			return 0, err
		}
		if other == text {
			return i, nil
		}
	}
	return -1, nil
}

// sameBehaviour reports whether two profiles schedule in the same way, even if they are written
// differently.
func sameBehaviour(have, want *Revision) bool {
	if want.Profile == nil || have.Profile == nil || want.Hash == "" || have.Hash != want.Hash {
		return false
	}
	if have.Policy == nil || want.Policy == nil {
		return have.Policy == want.Policy
	}
	return have.Policy.Name == want.Policy.Name
}

// sameMetadata reports whether a revision has the wanted metadata.
func sameMetadata(have, want *Revision) bool {
	if have.Generation != want.Generation || have.Hash != want.Hash {
		return false
	}
	if want.Profile == nil {
		return true
	}
	if have.Policy == nil || want.Policy == nil {
		return have.Policy == want.Policy
	}
	return have.Policy.Name == want.Policy.Name && have.Policy.UID == want.Policy.UID &&
		have.Policy.Generation == want.Policy.Generation &&
		(have.Policy.Revision == want.Policy.Revision || want.Policy.Revision == "")
}

// updated returns a revision with the wanted metadata. How it became active does not change.
func updated(have, want *Revision) *Revision {
	next := *have
	next.Generation, next.Hash = want.Generation, want.Hash
	if have.Policy != nil {
		policy := *have.Policy
		policy.UID, policy.Generation = want.Policy.UID, want.Policy.Generation
		if want.Policy.Revision != "" {
			policy.Revision = want.Policy.Revision
		}
		next.Policy = &policy
	}
	return &next
}

// numbered returns a new revision, after all others.
func numbered(want *Revision, have []Revision) *Revision {
	next := *want
	next.Number = 1
	if len(have) > 0 {
		next.Number = have[len(have)-1].Number + 1
	}
	return &next
}
