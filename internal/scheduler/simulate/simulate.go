// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/suggest"
)

// Request is a simulation.
type Request struct {
	Pods Selection
	// Pending are the pods of the cluster that are on no node.
	Pending []*corev1.Pod
	Nodes   Nodes
	// Changes are the profiles that the simulation changes, by scheduler name. nil stands for a
	// profile that is removed. A nil map means that profiles do not change.
	Changes map[string]*resolve.Profile
	Seed    uint64
	// HideNodes erases the names of nodes in messages.
	HideNodes bool
	// NodeAllocations adds the room of each node to the outcomes.
	NodeAllocations bool
}

// Run simulates. The fork is changed, and must not be used afterwards. The error is a
// *InvalidError, or the cause of ctx.
func Run(ctx context.Context, k *fork.Fork, r Request) (*v1alpha1.SimulationStatus, error) {
	s, status, err := begin(k, &r)
	if err != nil {
		return nil, err
	}
	current, err := s.play(ctx, k.Profile)
	if err != nil {
		return nil, err
	}
	status.Nodes = int32(current.nodes)
	status.Current = s.compared(current, s.actualNodes())
	changed := func(name string) (*resolve.Profile, error) {
		if cfg, ok := r.Changes[name]; ok {
			if cfg == nil {
				return nil, fmt.Errorf("%w %q", fork.ErrNoProfile, name)
			}
			return cfg, nil
		}
		return k.Profile(name)
	}
	status.Profiles = s.profiles(k.Profile, changed)
	if r.HideNodes {
		s.hidden.eraseIn(&status.Current)
	}
	if r.Changes == nil {
		return status, nil
	}
	next, err := s.play(ctx, changed)
	if err != nil {
		return nil, err
	}
	outcome := s.compared(next, current.placed)
	if r.HideNodes {
		s.hidden.eraseIn(&outcome)
	}
	status.New = &outcome
	return status, nil
}

// begin chooses the subjects, describes where they are, takes them off their nodes, and changes the
// nodes.
func begin(k *fork.Fork, r *Request) (*simulation, *v1alpha1.SimulationStatus, error) {
	snapshot, err := k.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	removed, templates, errs := r.Nodes.resolve(snapshot)
	if name := r.Pods.SchedulerName; name != "" && r.Changes[name] == nil {
		errs = append(errs, checkSchedulerName(specPath.Child("schedulerName"), k, name)...)
	}
	if name := r.Pods.Of; name != "" && r.Pods.SchedulerName == "" {
		errs = append(errs, checkSchedulerName(specPath.Child("pods", "schedulerName"), k, name)...)
	}
	if len(errs) > 0 {
		return nil, nil, &InvalidError{errs}
	}
	c := newCensus(snapshot.NumNodes())
	chosen := choose(k, snapshot, c, r.Pending, r.Pods, removed)
	s := newSimulation(k, c, chosen.subjects, r)
	status := &v1alpha1.SimulationStatus{Pods: int32(len(s.subjects)), Matching: int32(chosen.matching),
		Displaced: int32(chosen.displaced)}
	status.Actual = s.actual(measure(snapshot, c, s.owners))
	if err := s.addAllocations(&status.Actual); err != nil {
		return nil, nil, err
	}
	if err := s.lift(); err != nil {
		return nil, nil, err
	}
	if err := r.Nodes.apply(k, templates, removed); err != nil {
		return nil, nil, err
	}
	if snapshot, err = k.Snapshot(); err != nil {
		return nil, nil, err
	}
	if r.HideNodes {
		s.hidden.addAll(snapshot)
	}
	if len(templates)+len(removed) > 0 {
		c.recount(snapshot)
	}
	findStaying(s.groups, snapshot, k.Groups())
	return s, status, nil
}

// checkSchedulerName returns an error if no profile of a fork has a scheduler name.
func checkSchedulerName(path *field.Path, k *fork.Fork, name string) field.ErrorList {
	if _, err := k.Profile(name); err == nil {
		return nil
	}
	names, problem := k.SchedulerNames(), "no SchedulerProfile has this scheduler name"
	switch question := suggest.DidYouMean(name, names); {
	case question != "":
		problem += question + " The scheduler names are " + strings.Join(names, ", ")
	case len(names) > 0:
		problem += "; the scheduler names are " + strings.Join(names, ", ")
	}
	return field.ErrorList{field.Invalid(path, name, problem)}
}

// InvalidError is the error of a request that names what does not exist.
type InvalidError struct{ Fields field.ErrorList }

// Error implements error.
func (e *InvalidError) Error() string { return e.Fields.ToAggregate().Error() }

// simulation is the state of Run.
type simulation struct {
	fork     *fork.Fork
	subjects []subject
	// owners are the owners of the subjects.
	owners map[owner]bool
	// census counts the pods of the fork, but not the subjects once they are taken off their nodes.
	census *census
	// numbers are the positions of the subjects, by their UIDs.
	numbers map[types.UID]int
	// groups are the groups of the subjects.
	groups map[groupKey]*subjectGroup
	seed   uint64
	// hidden are the names that are erased in messages.
	hidden nodeNames
	// namespace is the only one whose pods may be named, or "" for all.
	namespace string
	// allocations adds the room of each node to the outcomes.
	allocations bool
}

func newSimulation(k *fork.Fork, c *census, subjects []subject, r *Request) *simulation {
	s := &simulation{
		fork: k, subjects: subjects, census: c, owners: map[owner]bool{},
		numbers: make(map[types.UID]int, len(subjects)),
		groups:  groupsOf(subjects, k.Groups()), seed: r.Seed, hidden: nodeNames{}, namespace: r.Pods.Namespace,
		allocations: r.NodeAllocations,
	}
	for i := range subjects {
		s.owners[subjects[i].controller.owner] = true
		s.numbers[subjects[i].pod.UID] = i
	}
	return s
}

// addAllocations adds the room of each node, as the fork is now, to an outcome if that is asked
// for.
func (s *simulation) addAllocations(out *v1alpha1.SimulationOutcome) (err error) {
	if s.allocations {
		out.NodeAllocations, err = s.fork.NodeAllocations()
	}
	return err
}

// lift takes the bound pods off their nodes, and the devices from their claims.
func (s *simulation) lift() error {
	isPlaced := func(pod types.UID) bool {
		i, ok := s.numbers[pod]
		return ok && s.subjects[i].placed != nil
	}
	if err := s.fork.Devices().Release(isPlaced); err != nil {
		return fmt.Errorf("taking devices from the claims of pods: %w", err)
	}
	for i := range s.subjects {
		if pod := s.subjects[i].placed; pod != nil {
			if err := s.fork.RemovePod(pod); err != nil {
				return fmt.Errorf("taking the pod %s/%s off its node: %w", pod.Namespace, pod.Name, err)
			}
			s.census.move(pod.Spec.NodeName, s.subjects[i].controller, -1)
		}
	}
	return nil
}

func (s *simulation) actualNodes() []string {
	nodes := make([]string, len(s.subjects))
	for i := range s.subjects {
		nodes[i] = s.subjects[i].node()
	}
	return nodes
}

// actual completes the outcome that the cluster has.
func (s *simulation) actual(out v1alpha1.SimulationOutcome) v1alpha1.SimulationOutcome {
	for i := range s.subjects {
		if s.subjects[i].placed == nil {
			out.Unplaced++
			if len(out.UnplacedPods) < maxUnplaced {
				pod := s.subjects[i].pod
				out.UnplacedPods = append(out.UnplacedPods,
					v1alpha1.UnplacedPod{Namespace: pod.Namespace, Name: pod.Name})
			}
		}
	}
	return out
}

// compared completes an outcome with the pods that were on other nodes before.
func (s *simulation) compared(p *played, before []string) v1alpha1.SimulationOutcome {
	out, counts := p.outcome, map[owner]int{}
	for i, node := range p.placed {
		switch {
		case node == "":
			out.Unplaced++
		case before[i] != "" && before[i] != node:
			out.Moved++
			counts[s.subjects[i].controller.owner]++
		}
	}
	out.UnplacedPods, out.MovedByOwner = p.unplaced, owners(counts)
	return out
}

// profiles describes the profiles of the subjects.
func (s *simulation) profiles(current, changed func(string) (*resolve.Profile, error)) []v1alpha1.SimulatedProfile {
	byName := map[string]*v1alpha1.SimulatedProfile{}
	for i := range s.subjects {
		name := s.subjects[i].pod.Spec.SchedulerName
		p := byName[name]
		if p == nil {
			p = &v1alpha1.SimulatedProfile{SchedulerName: name}
			if cfg, err := current(name); err == nil {
				p.Current, p.ExtendersNotCalled = cfg.Revision, len(cfg.Extenders) > 0
			}
			if cfg, err := changed(name); err == nil {
				p.New, p.ExtendersNotCalled = cfg.Revision, p.ExtendersNotCalled || len(cfg.Extenders) > 0
			}
			byName[name] = p
		}
		p.Pods++
	}
	var out []v1alpha1.SimulatedProfile
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, *byName[name])
	}
	return out
}
