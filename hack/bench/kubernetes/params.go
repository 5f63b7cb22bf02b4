// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// params are the parameters of a workload, and which of them operations have used.
type params struct {
	values map[string]any
	used   map[string]bool
}

func newParams(values map[string]any) *params {
	return &params{values: values, used: map[string]bool{}}
}

// param returns the parameter that a reference such as $initNodes names. Numbers are float64, as
// JSON has them.
func param[T float64 | string | bool](p *params, reference string) (T, error) {
	var zero T
	name, ok := strings.CutPrefix(reference, "$")
	if !ok {
		return zero, fmt.Errorf("%q is not a reference to a parameter, which begins with $", reference)
	}
	p.used[name] = true
	value, ok := p.values[name]
	if !ok {
		return zero, fmt.Errorf("parameter %s is undefined", name)
	}
	typed, ok := value.(T)
	if !ok {
		return zero, fmt.Errorf("parameter %s has the wrong type %T", name, value)
	}
	return typed, nil
}

// number returns the value that a reference names, or fixed if there is none.
func (p *params) number(fixed int, reference string) (int, error) {
	if reference != "" {
		value, err := param[float64](p, reference)
		if err != nil {
			return 0, err
		}
		fixed = int(value)
	}
	if fixed < 0 {
		return 0, fmt.Errorf("%d is negative", fixed)
	}
	return fixed, nil
}

func (p *params) duration(fixed time.Duration, reference string) (time.Duration, error) {
	if reference == "" {
		return fixed, nil
	}
	text, err := param[string](p, reference)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(text)
}

// templateParams returns the parameters of a template, with references replaced. The text after a |
// is the YAML of the default.
func (p *params) templateParams(of map[string]any) (map[string]any, error) {
	resolved := maps.Clone(of)
	for name, value := range of {
		text, ok := value.(string)
		if !ok || !strings.HasPrefix(text, "$") {
			continue
		}
		key, standard, hasDefault := strings.Cut(text[1:], "|")
		p.used[key] = true
		if value, ok := p.values[key]; ok {
			resolved[name] = value
			continue
		}
		if !hasDefault {
			return nil, fmt.Errorf("parameter %s is undefined", key)
		}
		var parsed any
		if err := yaml.Unmarshal([]byte(standard), &parsed); err != nil {
			return nil, fmt.Errorf("the default of parameter %s: %w", key, err)
		}
		resolved[name] = parsed
	}
	return resolved, nil
}

// unused returns the parameters that no operation has used.
func (p *params) unused() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.values)), func(name string) bool { return p.used[name] })
}
