// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fork

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/preemption"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// maxDryRuns limits the dry runs of preemptions of a Decider for each profile. A dry run takes tens
// of microseconds, so that all of them take some seconds.
const maxDryRuns = 100_000

// trial returns the trial of a profile, or nil if the Decider or the profile does not preempt.
func (d *Decider) trial(p *profile.Instance) *preemption.Trial {
	if !d.options.Preempts {
		return nil
	}
	trial, ok := d.trials[p]
	if !ok {
		if plugin := p.Preemption(); plugin != nil {
			trial = plugin.NewTrial(d.intN, maxDryRuns)
		}
		d.trials[p] = trial
	}
	return trial
}

// Preempted are pods that are taken off their nodes in a fork, so that another one fits.
type Preempted struct {
	// Node is the node for the preemptor.
	Node string
	// Victims are the pods, the most important first. Those that are being deleted already are
	// taken off their nodes, too, and are not among them.
	Victims []*corev1.Pod

	fork  *Fork
	taken []takenOff
	// lost are pods that have lost their nominations for the node.
	lost []*corev1.Pod
}

// takenOff is a pod that was on a node.
type takenOff struct {
	info    fwk.PodInfo
	assumed bool
}

// Preempt makes room for a pod that Decide has just refused with this error, if the pod may preempt
// others: it takes the victims off the node that preemption chooses. The caller decides the pod
// again, nominated to that node. Preempt returns nil if preemption does not help. The error is
// preemption.ErrTooManyDryRuns, or comes from a plugin or from a context that ended.
func (d *Decider) Preempt(ctx context.Context, refused Decision, reason error) (*Preempted, error) {
	var fitError *schedframework.FitError
	trial := d.trial(refused.Profile)
	if trial == nil || !errors.As(reason, &fitError) {
		return nil, nil
	}
	choice, err := trial.Choose(ctx, refused.State, refused.Pod, fitError.Diagnosis.NodeToStatus)
	if choice == nil || err != nil {
		return nil, err
	}
	return d.fork.Evict(refused.Pod, choice)
}

// Evict takes the victims of a choice for a pod off their nodes. Their volumes and claims stay as
// they are; see RemovePod.
func (f *Fork) Evict(preemptor *corev1.Pod, choice *preemption.Choice) (*Preempted, error) {
	if err := f.refresh(); err != nil {
		return nil, err
	}
	p := &Preempted{Node: choice.Node, fork: f}
	for _, victim := range choice.Victims {
		info, err := f.podOn(victim)
		if err != nil {
			return nil, errors.Join(err, p.TakeBack())
		}
		taken := takenOff{info: info, assumed: f.IsAssumed(victim)}
		if err := f.RemovePod(victim); err != nil {
			return nil, errors.Join(err, p.TakeBack())
		}
		p.taken = append(p.taken, taken)
		if victim.DeletionTimestamp == nil {
			p.Victims = append(p.Victims, victim)
		}
	}
	p.lost = preemption.LosesNomination(f.nominator, preemptor, choice.Node)
	for _, pod := range p.lost {
		f.nominator.DeleteNominatedPodIfExists(pod)
	}
	return p, nil
}

// TakenOff returns all pods that are off their nodes: the victims, and those that were being
// deleted.
func (p *Preempted) TakenOff() []*corev1.Pod {
	pods := make([]*corev1.Pod, len(p.taken))
	for i := range p.taken {
		pods[i] = p.taken[i].info.GetPod()
	}
	return pods
}

// podOn returns a pod of the snapshot that is on a node.
func (f *Fork) podOn(pod *corev1.Pod) (fwk.PodInfo, error) {
	node, err := f.snapshot.NodeInfos().Get(pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	for _, info := range node.GetPods() {
		if info.GetPod().UID == pod.UID {
			return info, nil
		}
	}
	return nil, fmt.Errorf("the pod %s/%s is not on node %s", pod.Namespace, pod.Name, pod.Spec.NodeName)
}

// TakeBack puts the pods back on their nodes. What was done to the fork since must have been taken
// back.
func (p *Preempted) TakeBack() error {
	var errs []error
	for _, taken := range slices.Backward(p.taken) {
		if taken.assumed {
			errs = append(errs, p.fork.cache.AssumePod(p.fork.logger, taken.info))
		} else {
			errs = append(errs, p.fork.SetPod(taken.info.GetPod()))
		}
	}
	for _, pod := range p.lost {
		p.fork.nominate(pod, p.Node)
	}
	return errors.Join(errs...)
}
