// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/memsize"
	"github.com/livesched/livesched/internal/scheduler/cache"
)

// budget counts the bytes that classes hold. What several classes share counts once.
type budget struct{ bytes, max int }

// count replaces the size that was last accounted for something by its current size.
func (b *budget) count(accounted *int, now int) {
	b.bytes += now - *accounted
	*accounted = now
}

// classTable holds the classes of all profiles. While they hold more than the budget, it evicts
// classes. It drops rows, trackers and groups with the last class that uses them.
type classTable struct {
	budget
	nodes *nodeTable

	instances map[string]*instance // by profile name
	// setups are those that instances may share, by key.
	setups map[string]*setup
	byID   map[cache.ClassID]*class
	lastID cache.ClassID
	// lastVersion is the last version that an explanation got.
	lastVersion uint64
	residents   residents
	evicted     evicted
	lookups     lookups
	instruments *instruments
	pool        columnPool
}

func newClassTable(nodes *nodeTable, maxBytes int, instruments *instruments) *classTable {
	return &classTable{
		budget: budget{max: maxBytes}, nodes: nodes,
		instances: map[string]*instance{}, setups: map[string]*setup{}, byID: map[cache.ClassID]*class{},
		residents: newResidents(), instruments: instruments,
		lookups: lookups{hits: instruments.hits, news: instruments.news, returns: instruments.returns},
	}
}

// instanceOf returns an instance of a profile, with the setup that it uses. A new instance of a
// profile, or of a shadow, replaces the old one. At the same time it removes the instances of
// deleted profiles, which are closed.
func (t *classTable) instanceOf(plan *Plan) *instance {
	name := plan.profile
	if in, ok := t.instances[name]; ok && in.plan == plan {
		return in
	}
	// Join first: a new instance whose setup is that of the old one keeps its classes.
	joined := t.join(plan)
	for other, in := range t.instances {
		if other == name || in.isClosed() {
			t.leave(in)
			delete(t.instances, other)
		}
	}
	in := newInstance(plan, joined, t.instruments.points)
	t.instances[name] = in
	return in
}

// join returns the setup for a Plan.
func (t *classTable) join(plan *Plan) *setup {
	s, ok := t.setups[plan.setupKey]
	if !ok {
		s = newSetup(plan)
		if plan.setupKey != "" {
			t.setups[plan.setupKey] = s
		}
	}
	s.instances++
	return s
}

// leave reverts join. The classes of the last instance are dropped.
func (t *classTable) leave(in *instance) {
	s := in.setup
	s.instances--
	if s.instances > 0 {
		return
	}
	for _, c := range s.classes {
		t.drop(c)
	}
	delete(t.setups, in.plan.setupKey)
}

// find returns the class with a key, or nil if there is none.
func (t *classTable) find(s *setup, key []byte) *class {
	c, ok := s.classes[string(key)]
	if !ok {
		return nil
	}
	t.residents.use(c)
	t.lookups.hit()
	return c
}

// add adds a class that uses rows, which may be new.
func (t *classTable) add(key string, like *schedframework.PodInfo, rows *localRows) *class {
	t.lastID++
	c := &class{key: key, id: t.lastID, like: like, likeBytes: memsize.Of(like), local: rows}
	rows.setup.locals[rows.key] = rows
	rows.setup.classes[c.key] = c
	rows.classes++
	t.byID[c.id] = c
	cameBack := t.evicted.remove(c.hash())
	t.lookups.miss(cameBack)
	if t.residents.add(c, cameBack) {
		rows.seen = true // so that they get columns of their own at once
	}
	return c
}

// nextVersion returns a version that no explanation has had before.
func (t *classTable) nextVersion() uint64 {
	t.lastVersion++
	return t.lastVersion
}

// account updates the size of a class and of its rows, trackers and groups. It then evicts other
// classes while the total exceeds the budget.
func (t *classTable) account(c *class) {
	t.count(&c.bytes, c.size())
	for _, x := range c.trackers {
		t.count(&x.bytes, x.Bytes()+x.relevant.size())
	}
	if c.groups != nil {
		t.count(&c.groups.bytes, c.groups.size())
	}
	t.accountRows(c.local)
	for t.bytes > t.max {
		victim := t.residents.victim(c)
		if victim == nil {
			break
		}
		t.evicted.add(victim.hash())
		t.drop(victim)
		t.instruments.evictions.Inc()
	}
	t.instruments.memory.Set(float64(t.bytes))
	t.instruments.classes.Set(float64(t.residents.len()))
}

// accountRows updates the size of rows and of the data that they share with others.
func (t *classTable) accountRows(l *localRows) {
	t.count(&l.bytes, l.size())
	if r := l.eligibility; r != nil {
		t.count(&r.bytes, r.size())
	}
	if c := l.images; c != nil {
		t.count(&c.bytes, c.size())
	}
	t.accountNodes()
}

func (t *classTable) accountNodes() { t.count(&t.nodes.bytes, t.nodes.size()) }

// drop removes a class. It removes the class's rows, trackers and groups if no other class uses
// them.
func (t *classTable) drop(c *class) {
	s := c.local.setup
	c.dropTrackers(&t.budget)
	delete(s.classes, c.key)
	delete(t.byID, c.id)
	t.residents.remove(c)
	t.bytes -= c.bytes
	c.local.classes--
	if c.local.classes == 0 {
		delete(s.locals, c.local.key)
		t.release(c.local)
	}
}

// dropRows removes rows and all the classes that use them.
func (t *classTable) dropRows(l *localRows) {
	for _, c := range l.setup.classes {
		if c.local == l {
			t.drop(c)
		}
	}
}

// dropIf removes the classes that a function returns true for.
func (t *classTable) dropIf(outdated func(*class) bool) {
	for _, c := range t.byID {
		if outdated(c) {
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
	if l.images != nil {
		t.releaseImages(l.setup, l.images)
	}
	t.bytes -= l.bytes
	t.accountNodes()
}

// releaseEligibility releases rows that were held. They are dropped with their last user.
func (t *classTable) releaseEligibility(r *eligibilityRows) {
	r.users--
	if r.users == 0 {
		delete(r.setup.eligibilityRows, r.key)
		t.bytes -= r.bytes
	}
}

// releaseImages releases a column that was held. It is dropped with its last user.
func (t *classTable) releaseImages(s *setup, c *imageColumn) {
	c.users--
	if c.users == 0 {
		delete(s.imageColumns, c.key)
		t.bytes -= c.bytes
	}
}

// lend gives rows columns if they have none; see columnPool.
func (t *classTable) lend(l *localRows) {
	if from := t.pool.lend(l); from != nil {
		t.accountRows(from)
	}
}
