// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

const (
	oneOfThem = "let only one scheduler use the name: two may assign the same capacity twice"
	// recent is how old an Event may be to show that its scheduler still runs.
	recent = 10 * time.Minute
	// maxEvents is the number of Events that are read for each scheduler name.
	maxEvents = 500
)

// schedulers looks for other schedulers of the pods that profiles select.
func (e *examination) schedulers(ctx context.Context) {
	var profiles v1alpha1.SchedulerProfileList
	if err := e.Client.List(ctx, &profiles); err != nil {
		e.unreadable(viewerPermits, "SchedulerProfiles", err)
		return
	}
	names, waits := sets.New[string](), false
	for i := range profiles.Items {
		p := &profiles.Items[i]
		if p.Spec.Mode == v1alpha1.ProfileShadow {
			continue
		}
		names.Insert(resolve.SchedulerName(p))
		programmed := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
		waits = waits || programmed != nil && programmed.Reason == v1alpha1.ReasonSchedulerNameInUse
	}
	if names.Has(corev1.DefaultSchedulerName) {
		e.kubeScheduler(ctx, waits)
	}
	own, err := e.hosts(ctx)
	if err != nil {
		e.unreadable(e.clientPermits(), "the replicas of livesched", err)
		return
	}
	if own.Len() == 0 {
		e.add(Unknown, "",
			"the replicas of livesched are not known, so Events of other schedulers cannot be told from theirs")
		return
	}
	for _, name := range sets.List(names) {
		e.reporters(ctx, name, own)
	}
}

// kubeScheduler looks for a kube-scheduler beside a profile of its name, which may wait for it.
func (e *examination) kubeScheduler(ctx context.Context, waits bool) {
	var held coordinationv1.Lease
	key := lease.KubeScheduler
	switch err := e.Client.Get(ctx, key, &held); {
	case client.IgnoreNotFound(err) != nil:
		e.unreadable(askForPermission, "the Lease "+key.String(), err)
	case err != nil || ptr.Deref(held.Spec.HolderIdentity, "") == "" || !lease.Fresh(&held, e.Now, tolerance):
	case waits:
		e.add(Warning, "stop kube-scheduler, or give the profile another scheduler name",
			"kube-scheduler runs (%s renewed the Lease %s), so the profile with the scheduler name %q waits",
			*held.Spec.HolderIdentity, key, corev1.DefaultSchedulerName)
	default:
		e.add(Failed, oneOfThem,
			"kube-scheduler runs (%s renewed the Lease %s), and a profile has the scheduler name %q",
			*held.Spec.HolderIdentity, key, corev1.DefaultSchedulerName)
	}
}

// hosts returns the host names of the replicas, which are the names of their pods, and the host
// name of the leader, which may run outside of the cluster.
func (e *examination) hosts(ctx context.Context) (sets.Set[string], error) {
	pods, err := e.pods(ctx)
	if err != nil {
		return nil, err
	}
	hosts := sets.New[string]()
	for i := range pods {
		hosts.Insert(pods[i].Name)
	}
	var held coordinationv1.Lease
	if err := e.Client.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Lease},
		&held); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if host, _, _ := strings.Cut(ptr.Deref(held.Spec.HolderIdentity, ""), "_"); host != "" {
		hosts.Insert(host)
	}
	return hosts, nil
}

// reporters looks for recent Events by another scheduler of this name. kube-scheduler and livesched
// report as their scheduler name and host name.
func (e *examination) reporters(ctx context.Context, name string, own sets.Set[string]) {
	var events eventsv1.EventList
	if err := e.Client.List(ctx, &events, client.MatchingFields{"reportingController": name},
		client.Limit(maxEvents)); err != nil {
		e.unreadable(askForPermission, "Events", err)
		return
	}
	others := sets.New[string]()
	for i := range events.Items {
		event := &events.Items[i]
		host := strings.TrimPrefix(event.ReportingInstance, name+"-")
		if e.Now.Sub(lastSeen(event)) < recent && event.Regarding.Kind == "Pod" && !own.Has(host) {
			others.Insert(host)
		}
	}
	if others.Len() > 0 {
		e.add(Failed, oneOfThem, "%s, not a replica of livesched, reports about pods with the scheduler name %q",
			strings.Join(sets.List(others), ", "), name)
	}
}

func lastSeen(event *eventsv1.Event) time.Time {
	if event.Series != nil {
		return event.Series.LastObservedTime.Time
	}
	return event.EventTime.Time
}
