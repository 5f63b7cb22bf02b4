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
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Cluster holds the objects of the cluster that files are checked with.
type Cluster struct {
	Profiles []v1alpha1.SchedulerProfile
	Policies []v1alpha1.SchedulingPolicy
	// Secrets are the Secrets that could be read. With SecretsUnknown, all others are assumed to be
	// valid.
	Secrets        map[types.NamespacedName]resolve.Secret
	SecretsUnknown bool
}

// Options configures a check.
type Options struct {
	// Registered are the names of the plugins that livesched has.
	Registered sets.Set[string]
	// AllowedHosts are the hosts that livesched allows extenders to be at.
	AllowedHosts resolve.AllowedHosts
	// Cluster is nil to check the files alone.
	Cluster *Cluster
}

// The kinds that are checked.
const (
	kindProfile = "SchedulerProfile"
	kindPolicy  = "SchedulingPolicy"
)

// checker holds the state of one check.
type checker struct {
	options Options
	cluster Cluster // empty to check the files alone
	report  *Report
	input   resolve.Input
	// checked holds the objects in files that can be resolved, by kind and name.
	checked map[string]entry
}

type entry struct {
	index    int // in the report
	document *manifests.Document
}

// Check checks all objects together, as if they were applied in their order.
func Check(documents []manifests.Document, o Options) *Report {
	c := &checker{options: o, report: &Report{Objects: []Object{}}, checked: map[string]entry{}}
	c.input = resolve.Input{Registered: o.Registered, AllowedHosts: o.AllowedHosts, SecretsUnknown: o.Cluster == nil}
	if o.Cluster != nil {
		c.cluster = *o.Cluster
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
		object.add(d, Error, "", "kind",
			fmt.Sprintf("unknown kind %q in %s: must be %s or %s of %s", kind, version, kindProfile, kindPolicy,
				v1alpha1.GroupVersion))
		return
	}
	completed, errs := schema.Check(d.Object, c.inCluster(kind, object.Name))
	for _, err := range errs {
		object.add(d, Error, "", err.Field, err.ErrorBody())
	}
	if _, exists := c.checked[kind+"/"+object.Name]; exists {
		object.add(d, Error, "", "metadata.name",
			fmt.Sprintf("duplicate of another %s %q: only the last one to be applied remains", kind, object.Name))
		return
	}
	c.add(kind, completed, entry{index: len(c.report.Objects), document: d})
}

// skip adds a message for an object of another API. The message suggests convert for the
// configuration of kube-scheduler.
func (c *checker) skip(d *manifests.Document, version, kind string) {
	what := strings.TrimSuffix(kind+" "+d.Text("metadata", "name"), " ")
	if kind == "" {
		what = "an object without a kind"
	}
	note := fmt.Sprintf("%s: %s skipped: not an object of livesched", d.Place(), what)
	if kind == "KubeSchedulerConfiguration" || kind == "Policy" && version == "v1" {
		note += "; use `kubectl livesched convert` to convert it"
	}
	c.report.Skipped = append(c.report.Skipped, note)
}

// started is the assumed creation time of the first object in the files; each later one is a second
// younger. Conflicts are resolved by age, and all objects in the cluster are older.
var started = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// add adds an object to the objects to resolve, if it can be decoded. An object that exists in the
// cluster keeps its age.
func (c *checker) add(kind string, completed map[string]any, e entry) {
	text, err := json.Marshal(completed)
	if err != nil {
		return // impossible: it was decoded from JSON
	}
	meta := metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(started.Add(time.Duration(e.index) * time.Second))}
	switch kind {
	case kindProfile:
		var profile v1alpha1.SchedulerProfile
		if json.Unmarshal(text, &profile) != nil || profile.Name == "" {
			return // the schema check has reported why
		}
		if old := named(c.cluster.Profiles, profile.Name); old != nil {
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

// resolve adds the findings of the controller's checks.
func (c *checker) resolve() {
	resolution := resolve.Objects(c.input)
	for i := range c.input.Profiles {
		name := c.input.Profiles[i].Name
		c.conclude(kindProfile, name, resolution.ProfileResults[name])
	}
	for i := range c.input.Policies {
		name := c.input.Policies[i].Name
		c.conclude(kindPolicy, name, resolution.PolicyResults[name])
	}
}

// notFound holds the reasons of references to objects that may be in the cluster.
var notFound = sets.New(v1alpha1.ReasonPolicyNotFound, v1alpha1.ReasonProfileNotFound)

// conclude adds the findings of a result to an object in the files.
func (c *checker) conclude(kind, name string, result resolve.Result) {
	e, inFiles := c.checked[kind+"/"+name]
	if !inFiles {
		return
	}
	object := &c.report.Objects[e.index]
	for _, problem := range result.Problems {
		if !object.hasErrorAt(problem.Path) {
			object.add(e.document, Error, problem.Reason, problem.Path, problem.Detail)
		}
	}
	for _, obstacle := range result.Obstacles {
		severity := Error
		if notFound.Has(obstacle.Reason) && c.options.Cluster == nil {
			severity, obstacle.Reason = Warning, ""
			obstacle.Detail += " in the files: the profile was checked without it (use --against-cluster to look it " +
				"up in the cluster)"
		}
		object.add(e.document, severity, obstacle.Reason, obstacle.Path, obstacle.Detail)
	}
	for _, warning := range result.Warnings {
		object.add(e.document, Warning, "", warning.Path, warning.Detail)
	}
	if kind == kindPolicy && name == resolve.DefaultPolicyName && c.options.Cluster == nil {
		object.add(e.document, Warning, "", "metadata.name",
			"every SchedulerProfile without policyRef builds on this policy, also those that are not in the files "+
				"(--against-cluster names them)")
	}
}

func (o *Object) add(d *manifests.Document, severity Severity, reason, path, detail string) {
	o.Findings = append(o.Findings,
		Finding{Severity: severity, Reason: reason, Path: path, Line: d.LineOf(path), Detail: detail})
}
