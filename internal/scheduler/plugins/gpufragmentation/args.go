// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufragmentation

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/internal/scheduler/plugins/args"
)

// Devices are the arguments that say what the GPUs of a node are.
type Devices struct {
	// Driver is the DRA driver of the GPUs.
	Driver string `json:"driver,omitempty"`
	// Capacity is the capacity that claims share of a device that allows multiple allocations.
	// Other devices, and all if it is empty, are allocated as a whole.
	Capacity resourcev1.QualifiedName `json:"capacity,omitempty"`
	// Resource is the extended resource by which pods request whole GPUs, such as nvidia.com/gpu.
	Resource corev1.ResourceName `json:"resource,omitempty"`
}

// check returns an error if the arguments name no GPUs.
func (d *Devices) check() error {
	switch {
	case d.Driver == "" && d.Resource == "":
		return field.Required(field.NewPath("driver"), "without it, resource is required")
	case d.Driver == "" && d.Capacity != "":
		return field.Required(field.NewPath("driver"), "capacity is for it")
	}
	return nil
}

// Args are the arguments of GPUFragmentation.
type Args struct {
	Devices
	// DeviceClasses are the classes by which claims ask for the devices of the driver; default: the
	// one named like the driver.
	DeviceClasses []string `json:"deviceClasses,omitempty"`
	// ModelAttribute is the attribute of a device that has its model, for typical pods that need
	// certain models.
	ModelAttribute resourcev1.QualifiedName `json:"modelAttribute,omitempty"`
	// TypicalPods are the pods that the cluster is kept fit for.
	TypicalPods []TypicalPod `json:"typicalPods"`
}

// TypicalPod describes pods that are alike for the plugin.
type TypicalPod struct {
	// MilliCPU is what the pod requests of the CPU, in thousandths.
	MilliCPU int64 `json:"milliCPU,omitempty"`
	// GPUs is the number of GPUs that it needs on one node. MilliGPU is how much it needs of each,
	// in thousandths; default: 1000, the whole GPU.
	GPUs     int   `json:"gpus,omitempty"`
	MilliGPU int64 `json:"milliGPU,omitempty"`
	// Models are the models that it can use; default: all.
	Models []string `json:"models,omitempty"`
	// Weight is how many such pods there are compared with others; default: 1.
	Weight int64 `json:"weight,omitempty"`
}

// The bounds of the arguments. Each node is compared with each typical pod in each decision.
const (
	maxTypicalPods = 256
	maxWeight      = math.MaxInt32
	maxGPUs        = 1024
)

// CheckArgs checks the arguments of GPUFragmentation.
func CheckArgs(object runtime.Object) error {
	_, _, err := parseArgs(object)
	return err
}

// parseArgs reads and checks the arguments. It returns the typical pods, too.
func parseArgs(object runtime.Object) (*Args, []podType, error) {
	a := &Args{}
	if err := args.Decode(object, a); err != nil {
		return nil, nil, err
	}
	if err := a.check(); err != nil {
		return nil, nil, err
	}
	if a.Driver == "" && len(a.DeviceClasses)+len(a.ModelAttribute) > 0 {
		return nil, nil, field.Required(field.NewPath("driver"), "deviceClasses and modelAttribute are for it")
	}
	if a.Driver != "" && len(a.DeviceClasses) == 0 {
		a.DeviceClasses = []string{a.Driver}
	}
	types, err := a.types()
	return a, types, err
}

// types checks the typical pods, and returns them with their popularity.
func (a *Args) types() ([]podType, error) {
	path := field.NewPath("typicalPods")
	switch n := len(a.TypicalPods); {
	case n == 0:
		return nil, field.Required(path, "the score depends on them")
	case n > maxTypicalPods:
		return nil, field.TooMany(path, n, maxTypicalPods)
	}
	var types []podType
	var weights float64
	for i := range a.TypicalPods {
		t, err := a.typeOf(&a.TypicalPods[i], path.Index(i))
		if err != nil {
			return nil, err
		}
		weights += t.popularity
		types = append(types, t)
	}
	for i := range types {
		types[i].popularity /= weights
	}
	return types, nil
}

// typeOf checks a typical pod and converts it. Its popularity is its weight.
func (a *Args) typeOf(pod *TypicalPod, path *field.Path) (t podType, err error) {
	t = podType{cpu: pod.MilliCPU, gpus: pod.GPUs, share: pod.MilliGPU, models: pod.Models,
		popularity: float64(max(pod.Weight, 1))}
	if t.share == 0 {
		t.share = whole
	}
	switch {
	case t.cpu < 0:
		err = field.Invalid(path.Child("milliCPU"), t.cpu, "must not be negative")
	case t.gpus < 0 || t.gpus > maxGPUs:
		err = field.Invalid(path.Child("gpus"), t.gpus, "must be from 0 to 1024")
	case t.share < 0 || t.share > whole:
		err = field.Invalid(path.Child("milliGPU"), t.share, "must be from 0 (which means 1000) to 1000")
	case t.gpus == 0 && pod.MilliGPU != 0:
		err = field.Forbidden(path.Child("milliGPU"), "gpus is 0")
	case len(t.models) > 0 && a.ModelAttribute == "":
		err = field.Forbidden(path.Child("models"), "modelAttribute is empty")
	case pod.Weight < 0 || pod.Weight > maxWeight:
		err = field.Invalid(path.Child("weight"), pod.Weight, "must be from 0 (which means 1) to 2147483647")
	}
	return t, err
}
