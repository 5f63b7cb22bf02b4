// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

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

// ComponentConfigs shows profiles as kube-scheduler would be configured to do the same: as
// KubeSchedulerConfigurations of kubescheduler.config.k8s.io/v1, in JSON. process has what is not a
// matter of profiles, and is not changed.
//
// A KubeSchedulerConfiguration has parallelism, backoffs and extenders once, which is once for each
// policy here, and one queue sort, from which a profile can differ that is kept on its last good
// spec. So there is one document for all profiles that share them, under the name "componentconfig"
// for those that build on the policy "default" (or on the first, if none does), and
// "componentconfig/<policy>" for the others.
//
// Each document is one that kube-scheduler can be started with, as far as it has the plugins,
// except that TLS material of extenders and passwords in their URLs are left out. Backoffs are
// rounded up to whole seconds, of which it has no parts, and 100 stands for the percentage 0, for
// which kube-scheduler would choose one by itself.
func ComponentConfigs(process *schedconfig.KubeSchedulerConfiguration, profiles []*Profile) (map[string]json.RawMessage, error) {
	groups := map[string][]*Profile{} // by what they share
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
		if documents[name] != nil { // the last good spec of a policy goes on in some profiles
			name = fmt.Sprintf("%s@%d", name, group[0].PolicyGeneration)
		}
		for documents[name] != nil { // of two objects of that name, one after the other
			name += "+"
		}
		document, err := runtime.Encode(argsEncoder, componentConfig(process, group))
		if err != nil {
			return nil, fmt.Errorf("encoding the configuration of the profiles that build on policy %q: %w", group[0].PolicyName, err)
		}
		documents[name] = bytes.TrimSpace(document)
	}
	return documents, nil
}

func defaultPolicyFirst(a, b *Profile) int {
	other := func(p *Profile) int { return order(p.PolicyName != DefaultPolicyName) }
	return cmp.Or(other(a)-other(b), cmp.Compare(a.PolicyName, b.PolicyName), cmp.Compare(b.PolicyGeneration, a.PolicyGeneration), cmp.Compare(a.SchedulerName, b.SchedulerName))
}

// componentConfig is the configuration of profiles that share what is not theirs alone.
func componentConfig(process *schedconfig.KubeSchedulerConfiguration, group []*Profile) *schedconfig.KubeSchedulerConfiguration {
	c := process.DeepCopy()
	c.Profiles, c.Extenders, c.PercentageOfNodesToScore = nil, nil, nil
	for _, p := range group {
		profile := p.Config.DeepCopy()
		profile.PercentageOfNodesToScore = ptr.To(cmp.Or(p.PercentageOfNodesToScore, 100))
		// Nothing of kube-scheduler's default set is to be added to what is already merged.
		profile.Plugins.MultiPoint.Disabled = []schedconfig.Plugin{{Name: allPlugins}}
		c.Profiles = append(c.Profiles, *profile)
	}
	slices.SortFunc(c.Profiles, func(a, b schedconfig.KubeSchedulerProfile) int { return cmp.Compare(a.SchedulerName, b.SchedulerName) })
	if len(group) == 0 {
		return c
	}
	c.Parallelism = group[0].Parallelism
	c.PodInitialBackoffSeconds, c.PodMaxBackoffSeconds = wholeSeconds(group[0].PodInitialBackoff), wholeSeconds(group[0].PodMaxBackoff)
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
	// enableHTTPS is not set: to kube-scheduler it means that a certificate is not verified where
	// no authority is given.
	if e.TLS.Insecure || e.TLS.ServerName != "" || e.TLS.Secret != nil {
		c.TLSConfig = &schedconfig.ExtenderTLSConfig{Insecure: e.TLS.Insecure, ServerName: e.TLS.ServerName}
	}
	for _, resource := range e.ManagedResources {
		// What of them is ignored stands in the arguments of NodeResourcesFit.
		c.ManagedResources = append(c.ManagedResources, schedconfig.ExtenderManagedResource{Name: resource})
	}
	return c
}

// withoutPassword puts other characters in the place of the password of a URL.
func withoutPassword(prefix string) string {
	parsed, err := url.Parse(prefix)
	if err != nil {
		return ""
	}
	return parsed.Redacted()
}
