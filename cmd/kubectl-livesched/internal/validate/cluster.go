// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/crdschema"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Policies returns the policies among the documents that can be decoded.
func Policies(documents []manifests.Document) []v1alpha1.SchedulingPolicy {
	return objectsOf[v1alpha1.SchedulingPolicy](documents, kindPolicy)
}

// Profiles returns the profiles among the documents that can be decoded.
func Profiles(documents []manifests.Document) []v1alpha1.SchedulerProfile {
	return objectsOf[v1alpha1.SchedulerProfile](documents, kindProfile)
}

func objectsOf[Object any](documents []manifests.Document, kind string) []Object {
	var objects []Object
	for i := range documents {
		d := &documents[i]
		if d.Text("kind") != kind || crdschema.Of(d.Text("apiVersion"), kind) == nil {
			continue
		}
		var object Object
		if text, err := json.Marshal(d.Object); err == nil && json.Unmarshal(text, &object) == nil {
			objects = append(objects, object)
		}
	}
	return objects
}

// named returns the object with a name, nil if there is none.
func named[Object any, Pointer interface {
	*Object
	GetName() string
}](objects []Object, name string) Pointer {
	for i := range objects {
		if object := Pointer(&objects[i]); object.GetName() == name {
			return object
		}
	}
	return nil
}

// inCluster returns the object of the cluster that one in the files would replace, nil if there is
// none.
func (c *checker) inCluster(kind, name string) map[string]any {
	var object any
	if profile := named(c.cluster.Profiles, name); kind == kindProfile && profile != nil {
		object = profile
	} else if policy := named(c.cluster.Policies, name); kind == kindPolicy && policy != nil {
		object = policy
	} else {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil
	}
	return fields
}

// addCluster adds the objects of the cluster that the files do not replace. It reports profiles of
// the cluster that are accepted now but would not be with the files.
func (c *checker) addCluster() {
	cluster := c.options.Cluster
	if cluster == nil {
		return
	}
	now := resolve.Objects(resolve.Input{
		Profiles: cluster.Profiles, Policies: cluster.Policies, Registered: c.options.Registered,
		AllowedHosts: c.options.AllowedHosts,
		Secrets:      c.input.Secrets, SecretsUnknown: c.input.SecretsUnknown,
	})
	for _, policy := range cluster.Policies {
		if _, replaced := c.checked[kindPolicy+"/"+policy.Name]; !replaced {
			c.input.Policies = append(c.input.Policies, policy)
		}
	}
	for _, profile := range cluster.Profiles {
		if _, replaced := c.checked[kindProfile+"/"+profile.Name]; !replaced {
			c.input.Profiles = append(c.input.Profiles, profile)
		}
	}
	then := resolve.Objects(c.input)
	c.warnOfOthers(now, then)
	for _, profile := range cluster.Profiles {
		_, replaced := c.checked[kindProfile+"/"+profile.Name]
		result := then.ProfileResults[profile.Name]
		if replaced || result.Accepted || !now.ProfileResults[profile.Name].Accepted {
			continue
		}
		object := Object{Kind: kindProfile, Name: profile.Name}
		for _, problem := range append(result.Problems, result.Obstacles...) {
			object.Findings = append(object.Findings,
				Finding{Severity: Error, Reason: problem.Reason, Path: problem.Path, Detail: problem.Detail})
		}
		c.report.Objects = append(c.report.Objects, object)
	}
}

// warnOfOthers adds warnings to the policies in the files that change profiles of the cluster which
// are not in the files.
func (c *checker) warnOfOthers(now, then *resolve.Resolution) {
	changed := map[string][]string{} // by policy
	for _, name := range resolve.Changed(now, then) {
		if _, inFiles := c.checked[kindProfile+"/"+name]; !inFiles {
			policy := then.ByID(then.ProfileResults[name].ID()).PolicyName
			changed[policy] = append(changed[policy], name)
		}
	}
	for policy, profiles := range changed {
		if e, inFiles := c.checked[kindPolicy+"/"+policy]; inFiles {
			c.report.Objects[e.index].add(e.document, Warning, "", "metadata.name",
				"changes SchedulerProfiles of the cluster that are not in the files: "+strings.Join(profiles, ", "))
		}
	}
}
