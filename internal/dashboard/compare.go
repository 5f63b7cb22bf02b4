// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// comparedPods are the selections of pods that the page offers.
var comparedPods = []choice{
	{"last", "the last 2,000 bound"}, {"pending", "pending"}, {"all", "pending, and the last bound"},
}

// selectionTypes are what they mean in a simulation.
var selectionTypes = map[string]v1alpha1.PodSelectionType{
	"last": v1alpha1.PodsLast, "pending": v1alpha1.PodsPending, "all": v1alpha1.PodsAll,
}

// choice is a value of a form with its name.
type choice struct{ Value, Name string }

// compareView is the page that compares two profiles by a simulation.
type compareView struct {
	Profile, With, Namespace, Pods string
	Profiles, Others               []string
	Choices                        []choice
	// Result is nil before two profiles are chosen.
	Result *part[comparison]
}

// comparePage compares two profiles: it simulates what each does with the pods of the first one.
func (h *handler) comparePage(r *http.Request, s Source) answer {
	q := r.URL.Query()
	v := compareView{Profile: q.Get("profile"), With: q.Get("with"), Namespace: namespaceOf(r), Pods: q.Get("pods"),
		Choices: comparedPods}
	if selectionTypes[v.Pods] == "" {
		v.Pods = comparedPods[0].Value
	}
	a := answer{page: "compare", title: "Compare profiles"}
	profiles, err := s.Profiles(r.Context())
	if err != nil {
		v.Result = &part[comparison]{Problem: problemOf(err)}
		a.status, a.data = v.Result.Problem.Status, v
		return a
	}
	for i := range profiles {
		v.Others = append(v.Others, profiles[i].Name)
		if profiles[i].Spec.Mode != v1alpha1.ProfileShadow {
			v.Profiles = append(v.Profiles, profiles[i].Name)
		}
	}
	if v.Profile != "" && v.With != "" {
		result := v.compare(r.Context(), s, profiles)
		v.Result = &result
		if result.Problem != nil {
			a.status = result.Problem.Status
		}
	}
	a.data = v
	return a
}

// compare simulates.
func (v *compareView) compare(ctx context.Context, s Source, profiles []v1alpha1.SchedulerProfile) part[comparison] {
	find := func(name string) *v1alpha1.SchedulerProfile {
		for i := range profiles {
			if profiles[i].Name == name {
				return &profiles[i]
			}
		}
		return nil
	}
	profile, with := find(v.Profile), find(v.With)
	switch {
	case profile == nil || with == nil:
		missing := v.Profile
		if profile != nil {
			missing = v.With
		}
		return part[comparison]{Problem: &problem{Status: http.StatusNotFound, Title: titles[http.StatusNotFound],
			Text: "There is no SchedulerProfile " + missing + "."}}
	case profile.Name == with.Name || profile.Spec.Mode == v1alpha1.ProfileShadow:
		return part[comparison]{Problem: &problem{Status: http.StatusBadRequest, Title: titles[http.StatusBadRequest],
			Text: "Choose two different profiles, of which the first one schedules pods."}}
	}
	simulation := simulationOf(profile, with)
	simulation.Metadata.Namespace, simulation.Spec.Pods.Type = v.Namespace, selectionTypes[v.Pods]
	simulation.Spec.NodeAllocations = true
	status, err := s.Simulate(ctx, simulation)
	if apierrors.IsForbidden(err) { // perhaps only the room of nodes
		simulation.Spec.NodeAllocations = false
		status, err = s.Simulate(ctx, simulation)
	}
	if err == nil && status.New == nil {
		err = errors.New("livesched did not simulate the second profile")
	}
	if err != nil {
		return partOf(comparison{}, err)
	}
	return part[comparison]{Data: comparisonOf(v.Profile, v.With, status)}
}

// simulationOf returns the simulation in which the spec of a profile replaces that of another one.
func simulationOf(profile, with *v1alpha1.SchedulerProfile) *v1alpha1.Simulation {
	name := profileRowOf(profile).SchedulerName
	changed := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: profile.Name}, Spec: *with.Spec.DeepCopy()}
	changed.Spec.SchedulerName, changed.Spec.Mode = profile.Spec.SchedulerName, profile.Spec.Mode
	changed.Spec.Shadow, changed.Spec.Rollout = nil, nil
	return &v1alpha1.Simulation{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Simulation"},
		Spec: v1alpha1.SimulationSpec{Profiles: []v1alpha1.SchedulerProfile{changed},
			Pods: v1alpha1.PodSelection{SchedulerName: name}},
	}
}
