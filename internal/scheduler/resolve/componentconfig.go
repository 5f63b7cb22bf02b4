// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"
)

// ComponentConfig is the name under which kube-scheduler shows its configuration.
const ComponentConfig = "componentconfig"

// ComponentConfigs returns the configuration with which kube-scheduler would behave the same:
// KubeSchedulerConfigurations of kubescheduler.config.k8s.io/v1, in JSON. process has the fields
// that do not belong to profiles, and is not modified.
//
// A KubeSchedulerConfiguration has one parallelism, one set of backoffs and of extenders, which
// each policy has here, and one queue sort, which may differ for a profile that runs its last good
// spec. So there is one document for all profiles that share them: "componentconfig" for those that
// build on the policy "default" (or on the first policy, if none does), and
// "componentconfig/<policy>" for the others.
//
// kube-scheduler can be started with each document if it has the plugins, except that TLS material
// of extenders and passwords in their URLs are left out. Backoffs are rounded up to whole seconds,
// and the percentage 0 becomes 100, since kube-scheduler would choose a percentage for 0.
func ComponentConfigs(process *schedconfig.KubeSchedulerConfiguration,
	profiles []*Profile) (map[string]json.RawMessage, error) {
	groups := map[string][]*Profile{} // by the settings that they share
	for _, p := range profiles {
		shared, err := json.Marshal(struct {
			PodInitialBackoff, PodMaxBackoff time.Duration
			Parallelism                      int32
			Extenders                        []Extender
			QueueSort                        QueueSort
		}{p.PodInitialBackoff, p.PodMaxBackoff, p.Parallelism, p.Extenders, p.QueueSort})
		if err != nil {
			return nil, err
		}
		groups[string(shared)] = append(groups[string(shared)], p)
	}
	var ordered [][]*Profile
	for _, group := range groups {
		slices.SortFunc(group, defaultPolicyFirst)
		ordered = append(ordered, group)
	}
	slices.SortFunc(ordered, func(a, b []*Profile) int { return defaultPolicyFirst(a[0], b[0]) })
	if len(ordered) == 0 {
		ordered = [][]*Profile{nil}
	}
	documents := map[string]json.RawMessage{}
	for i, group := range ordered {
		name := ComponentConfig
		if i > 0 {
			name = fmt.Sprintf("%s/%s", ComponentConfig, group[0].PolicyName)
		}
		if documents[name] != nil { // some profiles still use the last good spec of a policy
			name = fmt.Sprintf("%s@%d", name, group[0].PolicyGeneration)
		}
		for documents[name] != nil { // two objects had that name, one after the other
			name += "+"
		}
		document, err := runtime.Encode(argsEncoder, componentConfig(process, group))
		if err != nil {
			return nil, fmt.Errorf("encoding the configuration of the profiles that build on policy %q: %w",
				group[0].PolicyName, err)
		}
		documents[name] = bytes.TrimSpace(document)
	}
	return documents, nil
}

func defaultPolicyFirst(a, b *Profile) int {
	other := func(p *Profile) int { return order(p.PolicyName != DefaultPolicyName) }
	return cmp.Or(other(a)-other(b), cmp.Compare(a.PolicyName, b.PolicyName),
		cmp.Compare(b.PolicyGeneration, a.PolicyGeneration), cmp.Compare(a.SchedulerName, b.SchedulerName))
}

// componentConfig returns the configuration of profiles that share all fields outside of profiles.
func componentConfig(process *schedconfig.KubeSchedulerConfiguration,
	group []*Profile) *schedconfig.KubeSchedulerConfiguration {
	c := process.DeepCopy()
	c.Profiles, c.Extenders, c.PercentageOfNodesToScore = nil, nil, nil
	for _, p := range group {
		profile := p.Config.DeepCopy()
		profile.PercentageOfNodesToScore = ptr.To(cmp.Or(p.PercentageOfNodesToScore, 100))
		// kube-scheduler must not add its default set to the merged one.
		profile.Plugins.MultiPoint.Disabled = []schedconfig.Plugin{{Name: allPlugins}}
		c.Profiles = append(c.Profiles, *profile)
	}
	slices.SortFunc(c.Profiles,
		func(a, b schedconfig.KubeSchedulerProfile) int { return cmp.Compare(a.SchedulerName, b.SchedulerName) })
	if len(group) == 0 {
		return c
	}
	c.Parallelism = group[0].Parallelism
	c.PodInitialBackoffSeconds, c.PodMaxBackoffSeconds = wholeSeconds(group[0].PodInitialBackoff),
		wholeSeconds(group[0].PodMaxBackoff)
	for i := range group[0].Extenders {
		c.Extenders = append(c.Extenders, componentExtender(&group[0].Extenders[i]))
	}
	return c
}

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func componentExtender(e *Extender) schedconfig.Extender {
	c := schedconfig.Extender{
		URLPrefix:        withoutPassword(e.URLPrefix),
		FilterVerb:       e.FilterVerb,
		PreemptVerb:      e.PreemptVerb,
		PrioritizeVerb:   e.PrioritizeVerb,
		BindVerb:         e.BindVerb,
		Weight:           e.Weight,
		NodeCacheCapable: e.NodeCacheCapable,
		Ignorable:        e.Ignorable,
	}
	c.HTTPTimeout.Duration = e.Timeout
	// enableHTTPS is not set: in kube-scheduler it disables the verification of the certificate
	// unless an authority is given.
	if e.TLS.Insecure || e.TLS.ServerName != "" || e.TLS.Secret != nil {
		c.TLSConfig = &schedconfig.ExtenderTLSConfig{Insecure: e.TLS.Insecure, ServerName: e.TLS.ServerName}
	}
	for _, resource := range e.ManagedResources {
		// Ignored resources are in the arguments of NodeResourcesFit.
		c.ManagedResources = append(c.ManagedResources, schedconfig.ExtenderManagedResource{Name: resource})
	}
	return c
}

// withoutPassword masks the password of a URL.
func withoutPassword(prefix string) string {
	parsed, err := url.Parse(prefix)
	if err != nil {
		return ""
	}
	return parsed.Redacted()
}
