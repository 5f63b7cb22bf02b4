// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"container/list"

	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// budget counts the bytes that classes hold. What several classes share counts once.
type budget struct{ bytes, max int }

// count replaces the size that was last accounted for something by its current size.
func (b *budget) count(accounted *int, now int) {
	b.bytes += now - *accounted
	*accounted = now
}

// classTable holds the classes of all profiles. While they hold more than the budget, it drops the
// least recently used classes. It drops rows, trackers and groups with the last class that uses
// them.
type classTable struct {
	budget
	nodes *nodeTable

	instances map[string]*instance // by profile name
	byID      map[cache.ClassID]*class
	lastID    cache.ClassID
	// lastVersion is the last version that an explanation got.
	lastVersion uint64
	// used lists the classes, the most recently used first.
	used *list.List
	pool columnPool
}

func newClassTable(nodes *nodeTable, maxBytes int) *classTable {
	return &classTable{
		budget: budget{max: maxBytes}, nodes: nodes,
		instances: map[string]*instance{}, byID: map[cache.ClassID]*class{}, used: list.New(),
	}
}

// instanceOf returns the classes and rows of an instance. A new instance of a profile replaces the
// old one. At the same time it drops the instances that are closed: those of deleted profiles.
func (t *classTable) instanceOf(plan *Plan) *instance {
	name := plan.framework.ProfileName()
	if i, ok := t.instances[name]; ok && i.Plan == plan {
		return i
	}
	for other, i := range t.instances {
		if other == name || i.isClosed() {
			for _, c := range i.classes {
				t.drop(c)
			}
			delete(t.instances, other)
		}
	}
	i := newInstance(plan)
	t.instances[name] = i
	return i
}

// find returns the class with a key, or nil if there is none.
func (t *classTable) find(i *instance, key []byte) *class {
	c, ok := i.classes[string(key)]
	if !ok {
		return nil
	}
	t.used.MoveToFront(c.used)
	return c
}

// add adds a class that uses rows, which may be new.
func (t *classTable) add(key string, like *schedframework.PodInfo, rows *localRows) *class {
	t.lastID++
	c := &class{key: key, id: t.lastID, like: like, local: rows}
	rows.instance.locals[rows.key] = rows
	rows.instance.classes[c.key] = c
	rows.classes++
	t.byID[c.id] = c
	c.used = t.used.PushFront(c)
	return c
}

// nextVersion returns a version that no explanation has had before.
func (t *classTable) nextVersion() uint64 {
	t.lastVersion++
	return t.lastVersion
}

// account updates the size of a class and of its rows, trackers and groups. It then drops the least
// recently used classes while the total exceeds the budget.
func (t *classTable) account(c *class) {
	t.count(&c.bytes, c.size())
	for _, x := range c.trackers {
		t.count(&x.bytes, x.Bytes()+x.relevant.size())
	}
	if c.groups != nil {
		t.count(&c.groups.bytes, c.groups.size())
	}
	t.accountRows(c.local)
	for t.bytes > t.max && t.used.Back().Value != c {
		t.drop(t.used.Back().Value.(*class))
	}
}

// accountRows updates the size of rows and of the data that they share with others.
func (t *classTable) accountRows(l *localRows) {
	t.count(&l.bytes, l.size())
	if r := l.eligibility; r != nil {
		t.count(&r.bytes, r.size())
	}
	t.accountNodes()
}

func (t *classTable) accountNodes() { t.count(&t.nodes.bytes, t.nodes.size()) }

// drop removes a class. It removes the class's rows, trackers and groups if no other class uses
// them.
func (t *classTable) drop(c *class) {
	i := c.local.instance
	c.dropTrackers(&t.budget)
	delete(i.classes, c.key)
	delete(t.byID, c.id)
	t.used.Remove(c.used)
	t.bytes -= c.bytes
	c.local.classes--
	if c.local.classes == 0 {
		delete(i.locals, c.local.key)
		t.release(c.local)
	}
}

// dropRows removes rows and all the classes that use them.
func (t *classTable) dropRows(l *localRows) {
	for _, c := range l.instance.classes {
		if c.local == l {
			t.drop(c)
		}
	}
}

// dropAll removes all classes.
func (t *classTable) dropAll() {
	for _, i := range t.instances {
		for _, c := range i.classes {
			t.drop(c)
		}
	}
}

// release releases what rows hold.
func (t *classTable) release(l *localRows) {
	t.pool.takeBack(l)
	if l.demand != nil {
		l.demand.release(t.nodes)
	}
	t.releaseEligibility(l.eligibility)
	t.bytes -= l.bytes
	t.accountNodes()
}

// releaseEligibility releases rows that were held. They are dropped with their last user.
func (t *classTable) releaseEligibility(r *eligibilityRows) {
	r.users--
	if r.users == 0 {
		delete(r.instance.eligibility, r.key)
		t.bytes -= r.bytes
	}
}

// lend gives rows columns if they have none; see columnPool.
func (t *classTable) lend(l *localRows) {
	if from := t.pool.lend(l); from != nil {
		t.accountRows(from)
	}
}
