// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// profilePrefix and policyPrefix are those of the keys of profiles and policies in etcd.
const (
	profilePrefix = "/registry/livesched.io/schedulerprofiles/"
	policyPrefix  = "/registry/livesched.io/schedulingpolicies/"
)

// directRollout gives a command about a roll-out, or changes a profile so that there is one.
func (w *World) directRollout(r *rand.Rand) {
	profile := &v1alpha1.SchedulerProfile{}
	if err := w.cluster.objects.Get(w.ctx, client.ObjectKey{Name: one(r, profileNames)}, profile); err != nil {
		w.must(err)
		return
	}
	if r.IntN(6) == 0 {
		w.rollBack(r, profile)
		return
	}
	status := profile.Status.Rollout
	if status == nil || status.CanaryRevision == "" || status.Stage == string(rollout.Promoted) {
		w.writeProfile(profile.Name, r)
		return
	}
	verb := one(r, []rollout.Command{rollout.Abort, rollout.Abort, rollout.Promote, rollout.PromoteFull, rollout.Pause,
		rollout.Resume, rollout.Retry})
	command := fmt.Sprintf("%s:%s:%d", verb, status.CanaryRevision, w.counts["actor: rollouts"])
	w.log.add("direct the roll-out of profile %s: %s", profile.Name, command)
	metav1.SetMetaDataAnnotation(&profile.ObjectMeta, v1alpha1.AnnotationRollout, command)
	w.must(w.cluster.objects.Update(w.ctx, profile))
}

// profileChanged sees a change of a profile.
func (w *World) profileChanged(earlier, later *unstructured.Unstructured) {
	w.must(noteVersion(w.cluster.versions.profiles, nameOf(earlier, later), earlier, later))
	if later == nil {
		return
	}
	after := w.profileOf(later)
	w.checkActive(after)
	if earlier != nil {
		w.checkAborted(w.profileOf(earlier), after)
		if earlier.GetGeneration() == after.Generation {
			w.restoreIfAimed(aimBeforeStatus, w.cluster.revision-1)
		}
	}
}

// checkAborted checks that a roll-out that was aborted does not go on, and its revision does not
// run for all pods, until a user or a policy asks for something else.
func (w *World) checkAborted(before, after *v1alpha1.SchedulerProfile) {
	aborted := w.cluster.aborted
	if before.UID != after.UID || before.Generation != after.Generation ||
		before.Annotations[v1alpha1.AnnotationRollout] != after.Annotations[v1alpha1.AnnotationRollout] {
		delete(aborted, before.UID)
		return
	}
	active, status := after.Status.Active, after.Status.Rollout
	if status == nil || active == nil {
		return
	}
	now := abortedRollout{status.CanaryRevision, status.LastCommand}
	switch was := aborted[after.UID]; {
	case status.Stage == string(rollout.Aborted):
		if was != now {
			w.counts["roll-outs that are aborted"]++
		}
		aborted[after.UID] = now
	case was.revision != "" && status.LastCommand == was.command &&
		(status.CanaryRevision == was.revision || active.Revision == was.revision):
		w.fail("profile %s runs revision %s, and its roll-out of revision %s was aborted: %+v", after.Name,
			active.Revision, was.revision, status)
	}
}

// checkRollout checks that the status describes the roll-out of a revision, and that it does not
// stand still.
func checkRollout(profile *v1alpha1.SchedulerProfile, revision string, aborted bool) error {
	o, active := profile.Status.Rollout, profile.Status.Active.Revision
	if o == nil {
		return fmt.Errorf("there is no status of the roll-out")
	}
	command := profile.Annotations[v1alpha1.AnnotationRollout]
	switch stage := rollout.Stage(o.Stage); {
	case o.CanaryRevision != revision:
		return fmt.Errorf("revision %s is rolled out, not %s", o.CanaryRevision, revision)
	case o.StableRevision != active || active == revision:
		return fmt.Errorf("revision %s is stable, and %s active", o.StableRevision, active)
	case (stage == rollout.Aborted) != aborted || stage == rollout.Promoted:
		return fmt.Errorf("the roll-out is in stage %s", stage)
	case strings.Contains(command, ":"+revision+":") && o.LastCommand != command:
		return fmt.Errorf("the command %s was not followed", command)
	}
	// What is observed of failures is left out, so that nothing speaks against the revision.
	state := rollout.State{Stage: rollout.Stage(o.Stage), Step: int(ptr.Deref(o.CurrentStepIndex, 0)),
		Since: ptr.Deref(o.Since, metav1.Time{}).Time, Paused: o.Paused}
	seen := &rollout.Observed{Compared: int(o.Compared), Stable: int(o.StableOwners), New: int(o.CanaryOwners)}
	next, _ := state.Next(time.Now().Add(-30*time.Second), resolve.RolloutPlan(&profile.Spec), seen, "")
	if next.Stage != state.Stage || next.Step != state.Step {
		return fmt.Errorf("the roll-out has not gone on to stage %s, step %d", next.Stage, next.Step)
	}
	return nil
}

// checkStore checks that the leader decides with what the statuses say.
func (w *World) checkStore(r *replica) {
	current := r.manager.Scheduler.Store().Current()
	for _, object := range sorted(w.cluster.profiles) {
		profile := w.profileOf(object)
		active, o := profile.Status.Active, profile.Status.Rollout
		if profile.Name == shadowName || active == nil {
			continue
		}
		name := profile.Status.SchedulerName
		if instance := current.Get(name); instance == nil || instance.Config.Revision != active.Revision {
			w.fail("profile %s: revision %s does not decide its pods", profile.Name, active.Revision)
			return
		}
		canary, share := current.Canary(name)
		programmed := apimeta.FindStatusCondition(profile.Status.Conditions, v1alpha1.ConditionProgrammed)
		tried := programmed != nil && programmed.Reason == v1alpha1.ReasonRollingOut &&
			o.Stage == string(rollout.Canary)
		switch {
		case tried != (canary != nil):
			w.fail("profile %s: a canary runs: %v; the status of the roll-out: %+v", profile.Name, canary != nil, o)
		case tried && (canary.Config.Revision != o.CanaryRevision || share.Owners*100 != int(o.Weight)*queue.Whole):
			w.fail("profile %s: revision %s has a share of %d; the status of the roll-out: %+v", profile.Name,
				canary.Config.Revision, share.Owners, o)
		case tried:
			w.counts["canaries at rest"]++
		}
	}
}

// policyChanged sees a change of a policy. Profiles may be rolled out anew.
func (w *World) policyChanged(before, after *unstructured.Unstructured) {
	w.must(noteVersion(w.cluster.versions.policies, nameOf(before, after), before, after))
	clear(w.cluster.aborted)
}

func nameOf(before, after *unstructured.Unstructured) string {
	if after == nil {
		return before.GetName()
	}
	return after.GetName()
}

func (w *World) profileOf(object *unstructured.Unstructured) *v1alpha1.SchedulerProfile {
	profile, err := typed[v1alpha1.SchedulerProfile](object)
	w.must(err)
	return profile
}

func (w *World) policyOf(object *unstructured.Unstructured) *v1alpha1.SchedulingPolicy {
	policy, err := typed[v1alpha1.SchedulingPolicy](object)
	w.must(err)
	return policy
}

// abortedRollout is a revision whose roll-out was aborted, and the command that was followed last
// by then.
type abortedRollout struct{ revision, command string }
