// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

const (
	// revisionLength is the number of characters of a revision, of 4.7 bits each.
	revisionLength = 10
	// revisionAlphabet is the alphabet of names that Kubernetes generates: it cannot form words.
	revisionAlphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// canonicalProfile holds everything that the behaviour of a profile depends on, once, and nothing
// else. Its JSON is hashed. A change of its fields rebuilds every profile when livesched is
// updated, which is harmless.
type canonicalProfile struct {
	SchedulerName string                      `json:"schedulerName"`
	Plugins       map[string]canonicalPlugins `json:"plugins"`
	Args          map[string]json.RawMessage  `json:"args"`
	Shadow        *Shadow                     `json:"shadow,omitempty"`
	Settings
}

type canonicalPlugins struct {
	Enabled  []canonicalPlugin `json:"enabled,omitempty"`
	Disabled []string          `json:"disabled,omitempty"`
}

type canonicalPlugin struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight,omitempty"`
}

// revision returns a hash of everything that the behaviour of a profile depends on.
func revision(p *Profile) (string, error) {
	args, err := enabledArgs(p.Config)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(canonicalProfile{
		SchedulerName: p.SchedulerName, Plugins: canonicalSets(p.Config.Plugins), Args: args, Shadow: p.Shadow,
		Settings: p.Settings,
	})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	encoded := make([]byte, revisionLength)
	for i := range encoded {
		encoded[i] = revisionAlphabet[int(sum[i])%len(revisionAlphabet)]
	}
	return string(encoded), nil
}

// enabledArgs returns the arguments of the enabled plugins: no plugin gets the others.
func enabledArgs(profile *schedconfig.KubeSchedulerProfile) (map[string]json.RawMessage, error) {
	enabled, all := enabledNames(profile.Plugins), map[string]json.RawMessage{}
	for _, config := range profile.PluginConfig {
		if !enabled.Has(config.Name) || config.Args == nil {
			continue
		}
		args, err := canonicalArgs(config.Args)
		if err != nil {
			return nil, fmt.Errorf("args of plugin %q: %w", config.Name, err)
		}
		all[config.Name] = args
	}
	return all, nil
}

// canonicalSets returns a merged plugin set without the parts that have no effect: weights where
// nothing is scored, and disabled plugins that multiPoint does not add.
func canonicalSets(plugins *schedconfig.Plugins) map[string]canonicalPlugins {
	everywhere := sets.New(pluginNames(plugins.MultiPoint.Enabled)...)
	canonical := map[string]canonicalPlugins{}
	for _, point := range points {
		set := point.internal(plugins)
		var c canonicalPlugins
		for _, plugin := range set.Enabled {
			entry := canonicalPlugin{Name: plugin.Name}
			if point.weighted {
				entry.Weight = max(plugin.Weight, 1)
			}
			c.Enabled = append(c.Enabled, entry)
		}
		disabled := sets.New(pluginNames(set.Disabled)...)
		switch {
		case point.name == "multiPoint": // the merge dropped the plugins that it disables
		case disabled.Has(allPlugins):
			c.Disabled = []string{allPlugins}
		default:
			c.Disabled = sets.List(disabled.Intersection(everywhere))
		}
		if len(c.Enabled)+len(c.Disabled) > 0 {
			canonical[point.name] = c
		}
	}
	return canonical
}

// argsEncoder writes the arguments of kube-scheduler's plugins in their versioned form.
var argsEncoder = func() runtime.Encoder {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		panic("kube-scheduler's scheme has no JSON")
	}
	return scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion)
}()

// canonicalArgs returns the JSON of arguments: without white space, fields sorted by name, numbers
// as they were written.
func canonicalArgs(args runtime.Object) ([]byte, error) {
	var raw []byte
	switch args := args.(type) {
	case nil:
		raw = []byte("{}")
	case *runtime.Unknown:
		raw = args.Raw
	default:
		var err error
		if raw, err = runtime.Encode(argsEncoder, args); err != nil {
			return nil, err
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
