// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
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

// profileChanged checks that a revision whose roll-out was aborted does not run for all pods, until
// a user or a policy asks for something else.
func (w *World) profileChanged(earlier, later *unstructured.Unstructured) {
	if earlier == nil || later == nil {
		return
	}
	before, after := w.profileOf(earlier), w.profileOf(later)
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
	case active.Revision == was.revision && status.LastCommand == was.command:
		w.fail("profile %s runs revision %s for all pods, whose roll-out was aborted: %+v", after.Name, active.Revision,
			status)
	}
}

// policyChanged notes that profiles may be rolled out anew.
func (w *World) policyChanged(_, _ *unstructured.Unstructured) { clear(w.cluster.aborted) }

func (w *World) profileOf(object *unstructured.Unstructured) *v1alpha1.SchedulerProfile {
	profile := &v1alpha1.SchedulerProfile{}
	w.must(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, profile))
	return profile
}

// abortedRollout is a revision whose roll-out was aborted, and the command that was followed last
// by then.
type abortedRollout struct{ revision, command string }
