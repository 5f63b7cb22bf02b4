// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/crdschema"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/internal/scheduler/config"
)

// Cluster is what there is beside the files.
type Cluster struct {
	Profiles []v1alpha1.SchedulerProfile
	Policies []v1alpha1.SchedulingPolicy
	// Secrets that can be read. SecretsUnknown: none can; each is taken to be right.
	Secrets        map[types.NamespacedName]config.Secret
	SecretsUnknown bool
}

// Options say what objects are checked against.
type Options struct {
	// Registered are the names of the plugins that livesched has.
	Registered sets.Set[string]
	// Cluster is nil where the files are all that is known.
	Cluster *Cluster
}

// The kinds.
const (
	kindProfile = "SchedulerProfile"
	kindPolicy  = "SchedulingPolicy"
)

// checker holds the objects between the steps.
type checker struct {
	options Options
	report  *Report
	input   config.Input
	// checked has, by kind and name, where the objects are that can be resolved.
	checked map[string]entry
}

type entry struct {
	index    int // in the report
	document *manifests.Document
}

// Check checks all objects together, as if they were applied in their order.
func Check(documents []manifests.Document, o Options) *Report {
	c := &checker{options: o, report: &Report{Objects: []Object{}}, checked: map[string]entry{}}
	c.input = config.Input{Registered: o.Registered, SecretsUnknown: o.Cluster == nil}
	if o.Cluster != nil {
		c.input.Secrets, c.input.SecretsUnknown = o.Cluster.Secrets, o.Cluster.SecretsUnknown
	}
	for i := range documents {
		c.check(&documents[i])
	}
	c.addCluster()
	c.resolve()
	return c.report
}

// check checks one document by itself.
func (c *checker) check(d *manifests.Document) {
	version, kind := d.Text("apiVersion"), d.Text("kind")
	schema := crdschema.Of(version, kind)
	if schema == nil && !strings.HasPrefix(version, v1alpha1.GroupVersion.Group+"/") {
		c.skip(d, version, kind)
		return
	}
	object := Object{File: d.File, Document: d.Number, Line: d.Line, Kind: kind, Name: d.Text("metadata", "name")}
	defer func() { c.report.Objects = append(c.report.Objects, object) }()
	if schema == nil {
		object.add(d, Error, "", "kind", fmt.Sprintf("there is no kind %q in %s: must be %s or %s of %s", kind, version, kindProfile, kindPolicy, v1alpha1.GroupVersion))
		return
	}
	completed, errs := schema.Check(d.Object, c.inCluster(kind, object.Name))
	for _, err := range errs {
		object.add(d, Error, "", err.Field, err.ErrorBody())
	}
	if _, exists := c.checked[kind+"/"+object.Name]; exists {
		object.add(d, Error, "", "metadata.name", fmt.Sprintf("there is another %s %q before: the last one to be applied would stay", kind, object.Name))
		return
	}
	c.add(kind, completed, entry{index: len(c.report.Objects), document: d})
}

// skip notes an object of another API. One that was meant to be converted is told apart.
func (c *checker) skip(d *manifests.Document, version, kind string) {
	what := strings.TrimSuffix(kind+" "+d.Text("metadata", "name"), " ")
	if kind == "" {
		what = "an object without a kind"
	}
	note := fmt.Sprintf("%s: %s is not livesched's: not checked", d.Place(), what)
	if kind == "KubeSchedulerConfiguration" || kind == "Policy" && version == "v1" {
		note += "; `kubectl livesched convert` makes objects of it"
	}
	c.report.Skipped = append(c.report.Skipped, note)
}

// started is when the first of the files is thought to be applied, each a second after the one
// before: conflicts are settled by age. All that is in the cluster is older.
var started = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// add keeps an object to be resolved, if it has the shape at all. An object that is in the cluster
// keeps its age.
func (c *checker) add(kind string, completed map[string]any, e entry) {
	text, err := json.Marshal(completed)
	if err != nil {
		return // what was read from JSON can be written
	}
	meta := metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(started.Add(time.Duration(e.index) * time.Second))}
	switch kind {
	case kindProfile:
		var profile v1alpha1.SchedulerProfile
		if json.Unmarshal(text, &profile) != nil || profile.Name == "" {
			return // the schema has said why
		}
		if old := c.options.Cluster.profile(profile.Name); old != nil {
			meta = *old.ObjectMeta.DeepCopy()
		}
		meta.Name = profile.Name
		profile.ObjectMeta = meta
		c.input.Profiles = append(c.input.Profiles, profile)
		c.checked[kind+"/"+profile.Name] = e
	case kindPolicy:
		var policy v1alpha1.SchedulingPolicy
		if json.Unmarshal(text, &policy) != nil || policy.Name == "" {
			return
		}
		meta.Name = policy.Name
		policy.ObjectMeta = meta
		c.input.Policies = append(c.input.Policies, policy)
		c.checked[kind+"/"+policy.Name] = e
	}
}

// resolve says what the controller would.
func (c *checker) resolve() {
	resolution := config.Resolve(c.input)
	for i := range c.input.Profiles {
		name := c.input.Profiles[i].Name
		c.conclude(kindProfile, name, resolution.ProfileResults[name])
	}
	for i := range c.input.Policies {
		name := c.input.Policies[i].Name
		c.conclude(kindPolicy, name, resolution.PolicyResults[name])
	}
}

// conclude adds to an object what became of it.
func (c *checker) conclude(kind, name string, result config.Result) {
	e, inFiles := c.checked[kind+"/"+name]
	if !inFiles {
		return
	}
	object := &c.report.Objects[e.index]
	for _, problem := range result.Problems {
		if !object.at(problem.Path) {
			object.add(e.document, Error, problem.Reason, problem.Path, problem.Detail)
		}
	}
	for _, obstacle := range result.Obstacles {
		severity := Error
		if obstacle.Reason == v1alpha1.ReasonPolicyNotFound && c.options.Cluster == nil {
			severity, obstacle.Reason = Warning, ""
			obstacle.Detail += " in the files: the profile was checked without it (--against-cluster looks whether the cluster has it)"
		}
		object.add(e.document, severity, obstacle.Reason, obstacle.Path, obstacle.Detail)
	}
	for _, warning := range result.Warnings {
		object.add(e.document, Warning, "", warning.Path, warning.Detail)
	}
}

func (o *Object) add(d *manifests.Document, severity Severity, reason, path, detail string) {
	o.Findings = append(o.Findings, Finding{Severity: severity, Reason: reason, Path: path, Line: d.LineOf(path), Detail: detail})
}
