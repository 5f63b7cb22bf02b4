// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// operation is an operation as the configuration files have it.
type operation struct{ op }

// op is an operation of one kind. The fields of its type are those of the configuration files.
type op interface {
	// check finds what is wrong whatever the parameters are.
	check() error
	// resolve returns a copy of the operation with the values of parameters.
	resolve(p *params) (op, error)
	// run runs a resolved operation, which is the index-th of its workload.
	run(ctx context.Context, e *executor, index int) error
}

// opcodes creates an operation of each kind.
var opcodes = map[string]func() op{
	"allocResourceClaims":    func() op { return &allocResourceClaims{} },
	"barrier":                func() op { return &barrier{} },
	"churn":                  func() op { return &churn{} },
	"createAny":              func() op { return &createAny{} },
	"createNamespaces":       func() op { return &createNamespaces{} },
	"createNodes":            func() op { return &createNodes{} },
	"createPodGroups":        func() op { return &createPodGroups{} },
	"createPodSets":          func() op { return &createPodSets{} },
	"createPods":             func() op { return &createPods{} },
	"createResourceClaims":   func() op { return &createResourceClaims{} },
	"deletePods":             func() op { return &deletePods{} },
	"sleep":                  func() op { return &sleep{} },
	"startCollectingMetrics": func() op { return &startCollectingMetrics{} },
	"startCollectingProfile": func() op { return &startCollectingProfile{} },
	"stopCollectingMetrics":  func() op { return &stopCollectingMetrics{} },
	"stopCollectingProfile":  func() op { return &stopCollectingProfile{} },
	"updateAny":              func() op { return &updateAny{} },
}

// UnmarshalJSON reads an operation. An unknown opcode or field is an error.
func (o *operation) UnmarshalJSON(text []byte) error {
	var of struct{ Opcode string }
	if err := json.Unmarshal(text, &of); err != nil {
		return fmt.Errorf("operation %s: %w", text, err)
	}
	create, ok := opcodes[of.Opcode]
	if !ok {
		return fmt.Errorf("unknown opcode %q; there are %s", of.Opcode,
			strings.Join(slices.Sorted(maps.Keys(opcodes)), ", "))
	}
	o.op = create()
	if err := strictly(text, o.op); err != nil {
		return fmt.Errorf("opcode %s: %w", of.Opcode, err)
	}
	if err := o.check(); err != nil {
		return fmt.Errorf("opcode %s: %w", of.Opcode, err)
	}
	return nil
}

// kind is part of each operation: its opcode, which UnmarshalJSON has read.
type kind struct{ Opcode string }

func (kind) check() error { return nil }

type createNodes struct {
	kind
	Count                    int
	CountParam               string
	NodeTemplatePath         *string
	NodeAllocatableStrategy  *allocatableStrategy
	LabelNodePrepareStrategy *labelStrategy
	UniqueNodeLabelStrategy  *uniqueLabelStrategy
	TemplateParams           map[string]any
}

type allocatableStrategy struct {
	NodeAllocatable    map[string]string
	CSINodeAllocatable map[string]*storagev1.VolumeNodeResources
	MigratedPlugins    []string
}

type labelStrategy struct {
	LabelKey    string
	LabelValues []string
}

type uniqueLabelStrategy struct{ LabelKey string }

func (o *createNodes) resolve(p *params) (op, error) {
	r := *o
	return &r, errors.Join(set(&r.Count, p, r.CountParam), setTemplate(&r.TemplateParams, p))
}

type createNamespaces struct {
	kind
	Prefix                string
	Count                 int
	CountParam            string
	NamespaceTemplatePath *string
}

func (o *createNamespaces) resolve(p *params) (op, error) {
	r := *o
	return &r, set(&r.Count, p, r.CountParam)
}

type createPods struct {
	kind
	Count                             int
	CountParam                        string
	CountMultiplierParam              string
	SteadyState                       bool
	SteadyStateParam                  string
	Duration                          metav1.Duration
	DurationParam                     string
	CollectMetrics                    bool
	Namespace                         *string
	PodTemplatePath                   *string
	SkipWaitToCompletion              bool
	PersistentVolumeTemplatePath      *string
	PersistentVolumeClaimTemplatePath *string
	TemplateParams                    map[string]any
	SignatureBatchSize                int
	SignatureBatchSizeParam           string
}

func (o *createPods) check() error {
	switch {
	case o.CollectMetrics && o.SkipWaitToCompletion:
		return errors.New("collectMetrics and skipWaitToCompletion exclude each other")
	case o.SteadyState && o.SkipWaitToCompletion:
		return errors.New("steadyState and skipWaitToCompletion exclude each other")
	}
	return nil
}

func (o *createPods) resolve(p *params) (op, error) {
	r := *o
	err := errors.Join(set(&r.Count, p, r.CountParam), set(&r.SignatureBatchSize, p, r.SignatureBatchSizeParam),
		setTemplate(&r.TemplateParams, p))
	if r.CountMultiplierParam != "" {
		multiplier, multiplierErr := p.number(0, r.CountMultiplierParam)
		r.Count *= multiplier
		err = errors.Join(err, multiplierErr)
	}
	r.SignatureBatchSize = max(r.SignatureBatchSize, 1)
	if r.SteadyStateParam != "" {
		steady, steadyErr := param[bool](p, r.SteadyStateParam)
		r.SteadyState, err = steady, errors.Join(err, steadyErr)
	}
	duration, durationErr := p.duration(r.Duration.Duration, r.DurationParam)
	r.Duration.Duration = duration
	if err = errors.Join(err, durationErr); err == nil && r.SteadyState && duration <= 0 {
		err = errors.New("a steady state needs a duration")
	}
	return &r, err
}

type createPodSets struct {
	kind
	Count           int
	CountParam      string
	NamespacePrefix string
	CreatePodsOp    createPods
}

func (o *createPodSets) check() error { return o.CreatePodsOp.check() }

func (o *createPodSets) resolve(p *params) (op, error) {
	r := *o
	pods, err := o.CreatePodsOp.resolve(p)
	r.CreatePodsOp = *pods.(*createPods)
	return &r, errors.Join(err, set(&r.Count, p, r.CountParam))
}

type deletePods struct {
	kind
	Namespace            string
	LabelSelector        map[string]string
	SkipWaitToCompletion bool
	DeletePodsPerSecond  int
}

func (o *deletePods) check() error { return notNegative("deletePodsPerSecond", o.DeletePodsPerSecond) }

func (o *deletePods) resolve(*params) (op, error) { return o, nil }

type createAny struct {
	kind
	Namespace      string
	TemplatePath   string
	Count          *int
	CountParam     string
	TemplateParams map[string]any
}

func (o *createAny) check() error { return needsTemplate(o.TemplatePath) }

func (o *createAny) resolve(p *params) (op, error) {
	r := *o
	return &r, errors.Join(setOptional(&r.Count, p, r.CountParam), setTemplate(&r.TemplateParams, p))
}

type updateAny struct {
	kind
	Namespace       string
	TemplatePath    string
	Count           *int
	CountParam      string
	UpdatePerSecond int
	Subresources    []string
}

func (o *updateAny) check() error {
	return errors.Join(needsTemplate(o.TemplatePath), notNegative("updatePerSecond", o.UpdatePerSecond))
}

func (o *updateAny) resolve(p *params) (op, error) {
	r := *o
	return &r, setOptional(&r.Count, p, r.CountParam)
}

type createPodGroups struct {
	kind
	Namespace      string
	TemplatePath   string
	TemplateParams map[string]any
	Count          int
	CountParam     string
}

func (o *createPodGroups) check() error {
	return errors.Join(needsTemplate(o.TemplatePath), needsNamespace(o.Namespace))
}

func (o *createPodGroups) resolve(p *params) (op, error) {
	r := *o
	return &r, errors.Join(set(&r.Count, p, r.CountParam), setTemplate(&r.TemplateParams, p))
}

type createResourceClaims struct {
	kind
	Count        int
	CountParam   string
	Namespace    string
	TemplatePath string
}

func (o *createResourceClaims) check() error {
	return errors.Join(needsTemplate(o.TemplatePath), needsNamespace(o.Namespace))
}

func (o *createResourceClaims) resolve(p *params) (op, error) {
	r := *o
	return &r, set(&r.Count, p, r.CountParam)
}

type allocResourceClaims struct {
	kind
	Namespace string
}

func (o *allocResourceClaims) resolve(*params) (op, error) { return o, nil }

type churn struct {
	kind
	Mode                 string
	Number               int
	IntervalMilliseconds int64
	Namespace            *string
	TemplatePaths        []string
}

// The modes of churn.
const (
	churnCreate   = "create"
	churnRecreate = "recreate"
)

func (o *churn) check() error {
	switch {
	case o.Mode != churnCreate && o.Mode != churnRecreate:
		return fmt.Errorf("mode %q is neither %s nor %s", o.Mode, churnCreate, churnRecreate)
	case o.Mode == churnRecreate && o.Number == 0:
		return errors.New("mode recreate needs a number")
	case len(o.TemplatePaths) == 0:
		return errors.New("templatePaths is empty")
	}
	return notNegative("number", o.Number)
}

func (o *churn) resolve(*params) (op, error) { return o, nil }

type barrier struct {
	kind
	Namespaces       []string
	LabelSelector    map[string]string
	StageRequirement string
}

// The stages of a barrier.
const (
	scheduled = "Scheduled"
	attempted = "Attempted"
)

func (o *barrier) check() error {
	if !slices.Contains([]string{"", scheduled, attempted}, o.StageRequirement) {
		return fmt.Errorf("stageRequirement %q is neither %s nor %s", o.StageRequirement, scheduled, attempted)
	}
	return nil
}

func (o *barrier) resolve(*params) (op, error) { return o, nil }

type sleep struct {
	kind
	Duration      metav1.Duration
	DurationParam string
}

func (o *sleep) resolve(p *params) (op, error) {
	r := *o
	var err error
	r.Duration.Duration, err = p.duration(r.Duration.Duration, r.DurationParam)
	return &r, err
}

type startCollectingMetrics struct {
	kind
	Name          string
	Namespaces    []string
	LabelSelector map[string]string
}

func (o *startCollectingMetrics) check() error {
	if len(o.Namespaces) == 0 {
		return errors.New("namespaces is empty")
	}
	return nil
}

func (o *startCollectingMetrics) resolve(*params) (op, error) { return o, nil }

type stopCollectingMetrics struct{ kind }

func (o *stopCollectingMetrics) resolve(*params) (op, error) { return o, nil }

type startCollectingProfile struct {
	kind
	Type     string
	FilePath string
}

func (o *startCollectingProfile) resolve(*params) (op, error) { return o, nil }

type stopCollectingProfile struct {
	kind
	Type string
}

func (o *stopCollectingProfile) resolve(*params) (op, error) { return o, nil }

// collects reports whether an operation ends the collection of metrics.
func collects(o op) bool {
	switch o := o.(type) {
	case *createPods:
		return o.CollectMetrics
	case *createPodSets:
		return o.CreatePodsOp.CollectMetrics
	case *stopCollectingMetrics:
		return true
	}
	return false
}

// set replaces a count by the value of the parameter that a reference names, if there is one.
func set(count *int, p *params, reference string) (err error) {
	*count, err = p.number(*count, reference)
	return err
}

// setOptional is set for a count whose default is 1.
func setOptional(count **int, p *params, reference string) error {
	value := 1
	if *count != nil {
		value = **count
	}
	err := set(&value, p, reference)
	*count = &value
	return err
}

func setTemplate(of *map[string]any, p *params) (err error) {
	*of, err = p.templateParams(*of)
	return err
}

func needsTemplate(path string) error {
	if path == "" {
		return errors.New("templatePath is empty")
	}
	return nil
}

func needsNamespace(name string) error {
	if name == "" {
		return errors.New("namespace is empty")
	}
	return nil
}

func notNegative(field string, n int) error {
	if n < 0 {
		return fmt.Errorf("%s %d is negative", field, n)
	}
	return nil
}
