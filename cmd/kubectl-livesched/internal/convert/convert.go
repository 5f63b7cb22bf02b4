// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
)

// group is the API group of KubeSchedulerConfigurations.
const group = "kubescheduler.config.k8s.io/"

// ErrNothing means that no document has a configuration of kube-scheduler.
var ErrNothing = errors.New("no KubeSchedulerConfiguration or legacy Policy found")

// converter converts one document after the other.
type converter struct {
	options Options
	result  *Result
	// document is the current one, for remarks. prefix is the path of the configuration in it.
	document *manifests.Document
	prefix   string
	// holder is the name of the object that contains the current configuration, "" if none does.
	holder string
	// found counts the configurations.
	found int
	// policyName is the name of the policy of the current configuration, and named has all of them.
	policyName string
	named      sets.Set[string]
	// advised are the plugins that a remark has given advice about.
	advised sets.Set[string]
}

// Convert converts the configurations of kube-scheduler among the documents. It fails if there is
// none, or if one has an unknown version.
func Convert(documents []manifests.Document, o Options) (*Result, error) {
	o.SchedulerName = cmp.Or(o.SchedulerName, DefaultSchedulerName)
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	c := &converter{options: o, result: &Result{}, named: sets.New[string](), advised: sets.New[string]()}
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

// remark adds a remark on a field of the configuration, or with a nil path on all of it.
func (c *converter) remark(severity Severity, path *field.Path, format string, args ...any) {
	name := ""
	if path != nil {
		name = path.String()
	}
	line := c.document.LineOf(name)
	if c.prefix != "" { // the configuration is the text of a field in another object
		name = strings.TrimSuffix(c.prefix+": "+name, ": ")
	}
	c.result.Remarks = append(c.result.Remarks, Remark{
		Severity: severity, File: c.document.File, Line: line, Path: cmp.Or(name, "kind"),
		Detail: fmt.Sprintf(format, args...),
	})
}

// convert converts a document that is a configuration or contains one.
func (c *converter) convert() error {
	d := c.document
	switch kind, version := d.Text("kind"), d.Text("apiVersion"); {
	case kind == "ConfigMap":
		return c.contained("data")
	case kind == "SchedulerConfiguration" && strings.HasPrefix(version, "aks.azure.com/"):
		return c.contained("spec")
	case !c.isConfiguration(d.Object):
		if kind == "" {
			kind = "without a kind"
		}
		c.remark(Note, nil, "%s is not a configuration of kube-scheduler: skipped", kind)
		return nil
	}
	return c.configuration(d.Object)
}

// contained converts the configurations in the text fields of an object: the data of a ConfigMap,
// or rawConfig of a SchedulerConfiguration.
func (c *converter) contained(name string) error {
	texts, _ := c.document.Object[name].(map[string]any)
	holder, before := c.document, c.found
	c.holder = holder.Text("metadata", "name")
	for _, key := range sets.List(sets.KeySet(texts)) {
		text, ok := texts[key].(string)
		if !ok {
			continue
		}
		path := fmt.Sprintf("%s[%s]", name, key)
		documents, err := holder.Inner(path, text)
		if err != nil {
			// The text can be anything. Only one that names the kind is meant as a configuration.
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
	c.document, c.prefix, c.holder = holder, "", ""
	if c.found == before {
		c.remark(Note, nil, "%s contains no configuration of kube-scheduler: skipped", c.document.Text("kind"))
	}
	return nil
}

// isConfiguration reports whether an object is a KubeSchedulerConfiguration or a legacy policy. A
// legacy policy may lack apiVersion and kind: kube-scheduler's --policy-config-file did not need
// them.
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
	c.policyName = c.namePolicy(object)
	kind, _ := object["kind"].(string)
	version, _ := object["apiVersion"].(string)
	if kind != "KubeSchedulerConfiguration" {
		c.legacy(c.fields(nil, object, true))
		return nil
	}
	v, ok := versions[strings.TrimPrefix(version, group)]
	if !ok || !strings.HasPrefix(version, group) {
		return fmt.Errorf("apiVersion %q cannot be converted: must be %sv1, v1beta3, v1beta2 or v1beta1", version,
			group)
	}
	c.schedulerConfiguration(c.fields(nil, object, false), v)
	return nil
}

// addPolicy adds a policy, and returns the reference to it. Profiles refer to it even if it is
// empty: a policy "default" in the cluster must not change what they do.
func (c *converter) addPolicy(policy *v1alpha1.SchedulingPolicy) v1alpha1.PolicyReference {
	policy.TypeMeta.APIVersion, policy.TypeMeta.Kind = v1alpha1.GroupVersion.String(), "SchedulingPolicy"
	policy.Name = c.policyName
	c.result.Policies = append(c.result.Policies, *policy)
	return v1alpha1.PolicyReference{Name: policy.Name}
}

// addProfile adds a profile with the name of its scheduler.
func (c *converter) addProfile(path *field.Path, schedulerName string, profile *v1alpha1.SchedulerProfile) {
	profile.TypeMeta.APIVersion, profile.TypeMeta.Kind = v1alpha1.GroupVersion.String(), "SchedulerProfile"
	profile.Name = objectName(schedulerName)
	if profile.Name != schedulerName {
		profile.Spec.SchedulerName = schedulerName
	}
	for i := range c.result.Profiles {
		if c.result.Profiles[i].Name == profile.Name {
			c.remark(Loss, path, "duplicate profile %q: left out, since a scheduler name can have only one profile",
				schedulerName)
			return
		}
	}
	c.result.Profiles = append(c.result.Profiles, *profile)
}
