// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedconfigv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/plugins/gpufragmentation"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodepreferavoidpods"
	"github.com/livesched/livesched/internal/scheduler/plugins/noderesources"
	"github.com/livesched/livesched/internal/scheduler/plugins/selectorspread"
	"github.com/livesched/livesched/internal/scheduler/plugins/serviceaffinity"
)

// argsKnown reports whether the arguments of a plugin are a kind of kubescheduler.config.k8s.io/v1.
func argsKnown(plugin string) bool {
	return scheme.Scheme.Recognizes(configv1.SchemeGroupVersion.WithKind(plugin + "Args"))
}

// checkOwnArgs holds the checks of the arguments of livesched's own plugins, which are no kind of a
// configuration API.
var checkOwnArgs = map[string]func(runtime.Object) error{
	nodelabel.Name: func(args runtime.Object) error {
		_, err := nodelabel.ParseArgs(args)
		return err
	},
	serviceaffinity.Name: func(args runtime.Object) error {
		_, err := serviceaffinity.ParseArgs(args)
		return err
	},
	gpufragmentation.MostAllocatedName:         gpufragmentation.CheckMostAllocatedArgs,
	gpufragmentation.Name:                      gpufragmentation.CheckArgs,
	nodepreferavoidpods.Name:                   nodepreferavoidpods.CheckArgs,
	noderesources.LeastAllocatedName:           noderesources.CheckArgs(noderesources.LeastAllocatedName),
	noderesources.LimitsName:                   noderesources.CheckLimitsArgs,
	noderesources.MostAllocatedName:            noderesources.CheckArgs(noderesources.MostAllocatedName),
	noderesources.RequestedToCapacityRatioName: noderesources.CheckArgs(noderesources.RequestedToCapacityRatioName),
	selectorspread.Name:                        selectorspread.CheckArgs,
}

// decodeArgs reads the arguments of one plugin, strictly, and returns them in their versioned form.
// Arguments of out-of-tree plugins are passed on as they are (runtime.Unknown), as in
// kube-scheduler; absent ones are nil.
func decodeArgs(plugin string, raw []byte, path *field.Path, found *problems) runtime.Object {
	var fields map[string]json.RawMessage // nil for null, too
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &fields); err != nil {
			found.add(v1alpha1.ReasonInvalidArgs, path, "must be an object: %v", err)
			return nil
		}
	}
	if !argsKnown(plugin) {
		if fields == nil {
			return nil
		}
		if inTree.Has(plugin) && len(fields) > 0 {
			found.add(v1alpha1.ReasonInvalidArgs, path, "plugin %q takes no args", plugin)
			return nil
		}
		args := &runtime.Unknown{Raw: bytes.Clone(raw), ContentType: runtime.ContentTypeJSON}
		if check := checkOwnArgs[plugin]; check != nil {
			if err := check(args); err != nil {
				found.addArgs(v1alpha1.ReasonInvalidArgs, path, err)
				return nil
			}
		}
		return args
	}
	if fields == nil {
		raw = []byte("{}")
	}
	gvk := configv1.SchemeGroupVersion.WithKind(plugin + "Args")
	obj, actual, err := scheme.Codecs.UniversalDeserializer().Decode(raw, &gvk, nil)
	if actual != nil && *actual != gvk {
		found.add(v1alpha1.ReasonInvalidArgs, path,
			"must have apiVersion %s and kind %s, has apiVersion %s and kind %s",
			gvk.GroupVersion(), gvk.Kind, actual.GroupVersion(), actual.Kind)
		return nil
	}
	if err != nil {
		errs := []error{err}
		if strict, ok := runtime.AsStrictDecodingError(err); ok {
			errs = strict.Errors()
		}
		found.addArgs(v1alpha1.ReasonInvalidArgs, path, errs...)
		return nil
	}
	return obj
}

// validatedArgs is the field of the arguments in the configuration that validateArgs validates.
var validatedArgs = field.NewPath("profiles").Index(0).Child("pluginConfig").Index(0).Child("args")

// addArgs adds errors in the arguments of a plugin, each at the field that it names, if any.
func (p *problems) addArgs(reason string, path *field.Path, errs ...error) {
	for _, err := range errs {
		var invalid *field.Error
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			p.addArgs(reason, path, joined.Unwrap()...)
		} else if !errors.As(err, &invalid) {
			p.add(reason, path, "%v", err)
		} else {
			within := strings.TrimPrefix(strings.TrimPrefix(invalid.Field, validatedArgs.String()), ".")
			at := strings.TrimSuffix(path.String()+"."+within, ".") // within is empty for the arguments as a whole
			*p = append(*p, Problem{Reason: reason, Path: at, Detail: invalid.ErrorBody()})
		}
	}
}

// completeArgs gives versioned arguments kube-scheduler's defaults and translates them to the
// internal types that plugins take.
func completeArgs(args runtime.Object) (runtime.Object, error) {
	if args == nil {
		return nil, nil
	}
	if _, unknown := args.(*runtime.Unknown); unknown {
		return args, nil
	}
	conversion := schedconfigv1.GetPluginArgConversionScheme()
	conversion.Default(args)
	internal, err := conversion.ConvertToVersion(args, schedconfig.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return internal.DeepCopyObject(), nil // both steps share slices, some of them process-wide
}

// newArgs returns empty versioned arguments of a plugin, nil if there is no kind for them.
func newArgs(plugin string) (runtime.Object, error) {
	if !argsKnown(plugin) {
		return nil, nil
	}
	return scheme.Scheme.New(configv1.SchemeGroupVersion.WithKind(plugin + "Args"))
}

// validateArgs runs kube-scheduler's own validation over the arguments of one plugin, in their
// internal form.
func validateArgs(defaults *schedconfig.KubeSchedulerConfiguration, plugin string, args runtime.Object) []error {
	configuration := *defaults
	configuration.Profiles = []schedconfig.KubeSchedulerProfile{{
		SchedulerName: "validated",
		PluginConfig:  []schedconfig.PluginConfig{{Name: plugin, Args: args}},
	}}
	errs := []error{validation.ValidateKubeSchedulerConfiguration(&configuration)}
	// kube-scheduler does not validate these, by an oversight: it looks for them under the name
	// "NodeResourcesFitArgs".
	if fit, ok := args.(*schedconfig.NodeResourcesFitArgs); ok && plugin == names.NodeResourcesFit {
		errs = append(errs, validation.ValidateNodeResourcesFitArgs(validatedArgs, fit))
	}
	if all := utilerrors.Flatten(utilerrors.NewAggregate(errs)); all != nil {
		return all.Errors()
	}
	return nil
}
