// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// configFile is the name of the files that describe test cases.
const configFile = "performance-config.yaml"

// testCase is a test case of a configuration file: a sequence of operations, and the workloads that
// run it with parameters of their own. The fields are those of the file.
type testCase struct {
	Name                           string
	FeatureGates                   map[string]bool
	MetricsCollectorConfig         *metricsCollectorConfig
	WorkloadTemplate               []operation
	Workloads                      []*workload
	SchedulerConfigPath            string
	DefaultPodTemplatePath         *string
	Labels                         []string
	DefaultThresholdMetricSelector *thresholdMetricSelector

	// dir is the directory of the file, to which its paths are relative, and topic is that
	// directory as seen from the benchmark's.
	dir, topic string
}

// metricsCollectorConfig names metrics of the scheduler that upstream collects beside the
// throughput. This benchmark does not.
type metricsCollectorConfig struct {
	Metrics map[string][]struct {
		Label  string
		Values []string
	}
}

// workload holds the parameters of one run of a test case.
type workload struct {
	Name                    string
	Params                  map[string]any
	Labels                  []string
	Threshold               threshold
	ThresholdMetricSelector *thresholdMetricSelector
	FeatureGates            map[string]bool

	of *testCase
}

// threshold is the least average that upstream accepts of its own machines, or the value for each
// topic.
type threshold struct {
	value   float64
	byTopic map[string]float64
}

type thresholdMetricSelector struct {
	Name        string
	Labels      map[string]string
	DataBucket  string
	ExpectLower bool
}

// UnmarshalJSON reads a number or a map.
func (t *threshold) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &t.value) == nil {
		return nil
	}
	if err := json.Unmarshal(text, &t.byTopic); err != nil {
		return fmt.Errorf("a threshold is a number or a map from topics to numbers: %w", err)
	}
	return nil
}

// name is the name under which results are reported.
func (w *workload) name() string { return w.of.Name + "/" + w.Name }

// labels returns the labels by which workloads are selected.
func (w *workload) labels() []string { return slices.Concat(w.of.Labels, w.Labels) }

// gates returns the feature gates of the workload, which overrides those of its case.
func (w *workload) gates() map[string]bool {
	gates := map[string]bool{}
	maps.Copy(gates, w.of.FeatureGates)
	maps.Copy(gates, w.FeatureGates)
	return gates
}

// throughputThreshold returns the threshold of the average throughput, or 0 if there is none.
func (w *workload) throughputThreshold() float64 {
	selector := w.ThresholdMetricSelector
	if selector == nil {
		selector = w.of.DefaultThresholdMetricSelector
	}
	if selector != nil && (selector.Name != "SchedulingThroughput" || selector.DataBucket != "Average") {
		return 0
	}
	// The benchmark of a directory has its path as its topic.
	if value, ok := w.Threshold.byTopic[strings.ReplaceAll(w.of.topic, "/", "_")]; ok {
		return value
	}
	return w.Threshold.value
}

// enabled reports whether labels match a filter: a list of labels that must be there, or, after a
// minus, must not.
func enabled(filter string, labels []string) bool {
	for label := range strings.SplitSeq(filter, ",") {
		want := !strings.HasPrefix(label, "-")
		if label = strings.TrimLeft(label, "+-"); label != "" && slices.Contains(labels, label) != want {
			return false
		}
	}
	return true
}

// readCases reads all test cases below a directory, in the order of their files.
func readCases(root string) ([]*testCase, error) {
	var cases []*testCase
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != configFile {
			return err
		}
		found, err := readFile(root, path)
		cases = append(cases, found...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("there is no %s below %s", configFile, root)
	}
	seen := map[string]string{}
	for _, c := range cases {
		for _, w := range c.Workloads {
			if other, twice := seen[w.name()]; twice {
				return nil, fmt.Errorf("both %s and %s have a workload %s", other, c.topic, w.name())
			}
			seen[w.name()] = c.topic
		}
	}
	return cases, nil
}

func readFile(root, path string) ([]*testCase, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	topic, err := filepath.Rel(root, dir)
	if err != nil {
		return nil, err
	}
	cases, err := parseCases(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, c := range cases {
		c.dir, c.topic = dir, topic
	}
	return cases, nil
}

// parseCases parses a configuration file. What it does not know is an error.
func parseCases(text []byte) ([]*testCase, error) {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(asJSON, &raw); err != nil {
		return nil, fmt.Errorf("it is not a list of cases: %w", err)
	}
	var cases []*testCase
	for i, one := range raw {
		var named struct{ Name string }
		_ = json.Unmarshal(one, &named) // the name is for the next error
		c := &testCase{}
		err := strictly(one, c)
		if err == nil {
			err = c.check()
		}
		if err != nil {
			return nil, fmt.Errorf("case %d (%s): %w", i, named.Name, err)
		}
		for _, w := range c.Workloads {
			w.of = c
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func (c *testCase) check() error {
	switch {
	case c.Name == "":
		return errors.New("it has no name")
	case len(c.Workloads) == 0:
		return errors.New("it has no workloads")
	case !slices.ContainsFunc(c.WorkloadTemplate, func(o operation) bool { return collects(o.op) }):
		return errors.New("no operation collects metrics")
	}
	for _, w := range c.Workloads {
		if w == nil || w.Name == "" {
			return errors.New("a workload has no name")
		}
	}
	return nil
}

// strictly decodes JSON, and takes unknown fields for errors.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
