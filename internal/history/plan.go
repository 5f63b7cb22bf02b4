// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package history

// change is what has to be written so that a revision is kept. At most one of create and update is
// set.
type change struct {
	create, update *Revision
	// again is, where a spec is taken up again, the revision as it was before; nil otherwise.
	again *Revision
}

// plan says what to write so that an object with some revisions (ascending) has the wanted one.
//
// latest is that the spec was accepted and taken up: it becomes the newest revision. Where it is
// not, what is wanted is a last good spec that goes on while the present one is invalid: it only
// has to be there.
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
	case latest && at < newest:
		c.update = updated(&have[at], want)
		c.update.Number = have[newest].Number + 1
		c.again = &have[at]
	case latest && !sameMetadata(&have[at], want):
		c.update = updated(&have[at], want)
	}
	return c, nil
}

// beyond returns the oldest revisions of an object (ascending) that are more than the newest and
// limit others.
func beyond(have []Revision, limit int) []Revision {
	return have[:max(0, len(have)-1-limit)]
}

// find returns where the newest of some revisions is that is the same as a wanted one, -1 if none
// is.
func find(have []Revision, want *Revision) (int, error) {
	// The object and the policy have no other specs under the same generations: this is nearly
	// always the newest.
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

// sameBehaviour says that a profile decides as another one, although it is written in another way.
func sameBehaviour(have, want *Revision) bool {
	if want.Profile == nil || have.Profile == nil || want.Hash == "" || have.Hash != want.Hash {
		return false
	}
	if have.Policy == nil || want.Policy == nil {
		return have.Policy == want.Policy
	}
	return have.Policy.Name == want.Policy.Name
}

// sameMetadata says whether a revision is recorded as what it is.
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
	return have.Policy.Name == want.Policy.Name && have.Policy.UID == want.Policy.UID && have.Policy.Generation == want.Policy.Generation &&
		(have.Policy.Revision == want.Policy.Revision || want.Policy.Revision == "")
}

// updated is a revision with what is new of it.
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

// numbered is a new revision, after all others.
func numbered(want *Revision, have []Revision) *Revision {
	next := *want
	next.Number = 1
	if len(have) > 0 {
		next.Number = have[len(have)-1].Number + 1
	}
	return &next
}
