// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
)

// group is that of KubeSchedulerConfigurations.
const group = "kubescheduler.config.k8s.io/"

// ErrNothing is returned where no document has a configuration of kube-scheduler.
var ErrNothing = errors.New("no KubeSchedulerConfiguration and no legacy Policy found")

// converter converts one document after the other.
type converter struct {
	options Options
	result  *Result
	// document that is being converted, for remarks. prefix is where in it the configuration is.
	document *manifests.Document
	prefix   string
	// found counts the configurations.
	found int
	// advised are the plugins about which advice was given.
	advised sets.Set[string]
}

// Convert converts what of the documents is a configuration of kube-scheduler. It fails where there
// is none, or one of a version that it cannot read.
func Convert(documents []manifests.Document, o Options) (*Result, error) {
	o.SchedulerName = cmp.Or(o.SchedulerName, DefaultSchedulerName)
	o.PolicyName = cmp.Or(o.PolicyName, DefaultPolicyName)
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	c := &converter{options: o, result: &Result{}, advised: sets.New[string]()}
	var errs []error
	for i := range documents {
		c.document, c.prefix = &documents[i], ""
		before := len(c.result.Remarks)
		if err := c.convert(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", documents[i].Place(), err))
		}
		slices.SortStableFunc(c.result.Remarks[before:], func(a, b Remark) int { return cmp.Compare(a.Line, b.Line) })
	}
	if len(errs) == 0 && c.found == 0 {
		errs = append(errs, ErrNothing)
	}
	return c.result, errors.Join(errs...)
}

// remark remarks on a field of the configuration. A nil path is the whole of it.
func (c *converter) remark(severity Severity, path *field.Path, format string, args ...any) {
	name := ""
	if path != nil {
		name = path.String()
	}
	line := c.document.LineOf(name)
	if c.prefix != "" { // the configuration is a text in a field of another object
		name = strings.TrimSuffix(c.prefix+": "+name, ": ")
	}
	c.result.Remarks = append(c.result.Remarks, Remark{
		Severity: severity, File: c.document.File, Line: line, Path: cmp.Or(name, "kind"), Detail: fmt.Sprintf(format, args...),
	})
}

// convert converts a document, if it is a configuration or holds one.
func (c *converter) convert() error {
	d := c.document
	switch kind, version := d.Text("kind"), d.Text("apiVersion"); {
	case kind == "ConfigMap":
		return c.held("data")
	case kind == "SchedulerConfiguration" && strings.HasPrefix(version, "aks.azure.com/"):
		return c.held("spec")
	case !c.isConfiguration(d.Object):
		if kind == "" {
			kind = "without a kind"
		}
		c.remark(Note, nil, "%s is no configuration of kube-scheduler: passed over", kind)
		return nil
	}
	return c.configuration(d.Object)
}

// held converts the configurations that are texts in the fields of an object: the data of a
// ConfigMap, and rawConfig of a SchedulerConfiguration.
func (c *converter) held(name string) error {
	texts, _ := c.document.Object[name].(map[string]any)
	holder, before := c.document, c.found
	for _, key := range sets.List(sets.KeySet(texts)) {
		text, ok := texts[key].(string)
		if !ok {
			continue
		}
		path := fmt.Sprintf("%s[%s]", name, key)
		documents, err := holder.Inner(path, text)
		if err != nil {
			// Any text can be there. One that names its kind was meant to be read.
			if strings.Contains(text, "KubeSchedulerConfiguration") {
				return err
			}
			continue
		}
		for i := range documents {
			if !c.isConfiguration(documents[i].Object) {
				continue
			}
			c.document, c.prefix = &documents[i], path
			if err := c.configuration(documents[i].Object); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	c.document, c.prefix = holder, ""
	if c.found == before {
		c.remark(Note, nil, "%s has no configuration of kube-scheduler: passed over", c.document.Text("kind"))
	}
	return nil
}

// isConfiguration says whether an object is a KubeSchedulerConfiguration or a legacy policy. Those
// need not say so: files that kube-scheduler got with --policy-config-file were read without.
func (c *converter) isConfiguration(object map[string]any) bool {
	kind, _ := object["kind"].(string)
	version, _ := object["apiVersion"].(string)
	switch kind {
	case "KubeSchedulerConfiguration":
		return true
	case "Policy":
		return version == "v1" || version == "" || strings.HasPrefix(version, group)
	case "":
		_, predicates := object["predicates"]
		_, priorities := object["priorities"]
		return predicates || priorities
	}
	return false
}

func (c *converter) configuration(object map[string]any) error {
	c.found++
	if c.found > 1 {
		// Each configuration was that of another scheduler: what profiles share, they did not
		// share.
		defer func(name string) { c.options.PolicyName = name }(c.options.PolicyName)
		c.options.PolicyName = fmt.Sprintf("%s-%d", c.options.PolicyName, c.found)
	}
	kind, _ := object["kind"].(string)
	version, _ := object["apiVersion"].(string)
	if kind != "KubeSchedulerConfiguration" {
		c.legacy(c.fields(nil, object, true))
		return nil
	}
	v, ok := versions[strings.TrimPrefix(version, group)]
	if !ok || !strings.HasPrefix(version, group) {
		return fmt.Errorf("apiVersion %q cannot be converted: must be %sv1, v1beta3, v1beta2 or v1beta1", version, group)
	}
	c.schedulerConfiguration(c.fields(nil, object, false), v)
	return nil
}

// addPolicy keeps a policy if it says anything, and returns the reference to it.
func (c *converter) addPolicy(policy *v1alpha1.SchedulingPolicy, empty bool) v1alpha1.PolicyReference {
	if empty {
		return v1alpha1.PolicyReference{}
	}
	policy.TypeMeta.APIVersion, policy.TypeMeta.Kind = v1alpha1.GroupVersion.String(), "SchedulingPolicy"
	policy.Name = c.options.PolicyName
	c.result.Policies = append(c.result.Policies, *policy)
	if policy.Name == DefaultPolicyName {
		return v1alpha1.PolicyReference{}
	}
	return v1alpha1.PolicyReference{Name: policy.Name}
}

// addProfile keeps a profile, under the name of its scheduler.
func (c *converter) addProfile(path *field.Path, schedulerName string, profile *v1alpha1.SchedulerProfile) {
	profile.TypeMeta.APIVersion, profile.TypeMeta.Kind = v1alpha1.GroupVersion.String(), "SchedulerProfile"
	profile.Name = objectName(schedulerName)
	if profile.Name != schedulerName {
		profile.Spec.SchedulerName = schedulerName
	}
	for i := range c.result.Profiles {
		if c.result.Profiles[i].Name == profile.Name {
			c.remark(Loss, path, "there is another profile %q: one scheduler name is one profile: left out", schedulerName)
			return
		}
	}
	c.result.Profiles = append(c.result.Profiles, *profile)
}

// separators are what of a scheduler name cannot be in the name of an object as it is.
var separators = regexp.MustCompile(`[^a-z0-9]+`)

// objectName makes a name for an object out of that of a scheduler.
func objectName(schedulerName string) string {
	name := separators.ReplaceAllStringFunc(strings.ToLower(schedulerName), func(run string) string {
		if strings.Trim(run, ".") == "" {
			return "."
		}
		return "-"
	})
	name = strings.Trim(name[:min(len(name), 253)], "-.")
	return cmp.Or(name, "profile")
}
