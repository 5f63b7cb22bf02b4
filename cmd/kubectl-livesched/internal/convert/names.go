// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// namePolicy returns the name for the policy of a configuration. Each configuration belongs to
// another scheduler, so each has its own policy. It never is the one of profiles that reference no
// policy, unless the user chooses that: applying it would change profiles that have nothing to do
// with the configuration.
func (c *converter) namePolicy(object map[string]any) string {
	name := c.options.PolicyName
	if name == "" {
		if name = c.derivedName(object); name == resolve.DefaultPolicyName {
			name += "-policy"
		}
	}
	unique := name
	for n := 2; c.named.Has(unique); n++ {
		unique = fmt.Sprintf("%s-%d", name, n)
	}
	c.named.Insert(unique)
	return unique
}

// derivedName names a configuration after its profile or, if it has several, after the object or
// file that contains it. Standard input has no name.
func (c *converter) derivedName(object map[string]any) string {
	schedulers := c.schedulers(object)
	file := ""
	if c.document.File != "-" {
		base := filepath.Base(c.document.File)
		file = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if name := cmp.Or(c.holder, file); len(schedulers) > 1 && name != "" {
		return objectName(name)
	}
	return objectName(schedulers[0])
}

// schedulers returns the scheduler names of a configuration, at least one.
func (c *converter) schedulers(object map[string]any) []string {
	if kind, _ := object["kind"].(string); kind != "KubeSchedulerConfiguration" {
		return []string{c.options.SchedulerName}
	}
	var names []string
	profiles, _ := object["profiles"].([]any)
	for _, profile := range profiles {
		fields, _ := profile.(map[string]any)
		name, _ := fields["schedulerName"].(string)
		names = append(names, cmp.Or(name, DefaultSchedulerName))
	}
	if len(names) == 0 {
		return []string{DefaultSchedulerName}
	}
	return names
}

// separators matches the parts of a scheduler name that an object name cannot have.
var separators = regexp.MustCompile(`[^a-z0-9]+`)

// objectName derives the name of an object from a scheduler name.
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
