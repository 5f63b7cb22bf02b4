// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/plugins/serviceaffinity"
)

// unrolled replaces the wildcard with the resources that it includes.
func unrolled(resources []fwk.EventResource) []fwk.EventResource {
	var all []fwk.EventResource
	for _, resource := range resources {
		if resource != fwk.WildCard {
			all = append(all, resource)
			continue
		}
		for name := range builtin {
			// The wildcard includes only the framework's resources, and groups only with a gate.
			if name != serviceaffinity.Service && name != fwk.PodGroup && name != fwk.CompositePodGroup {
				all = append(all, name)
			}
		}
		all = append(all, fwk.Pod, fwk.Node)
	}
	return all
}

// builtin holds a function for each resource that plugins name, except the permanent ones. The
// function returns the informer.
var builtin = map[fwk.EventResource]func(*informers.Scope) toolscache.SharedIndexInformer{
	fwk.PersistentVolume: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Core().V1().PersistentVolumes().Informer()
	},
	fwk.PersistentVolumeClaim: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Core().V1().PersistentVolumeClaims().Informer()
	},
	fwk.StorageClass: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Storage().V1().StorageClasses().Informer()
	},
	fwk.CSINode: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Storage().V1().CSINodes().Informer()
	},
	fwk.CSIDriver: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Storage().V1().CSIDrivers().Informer()
	},
	fwk.CSIStorageCapacity: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Storage().V1().CSIStorageCapacities().Informer()
	},
	fwk.VolumeAttachment: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Storage().V1().VolumeAttachments().Informer()
	},
	serviceaffinity.Service: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Core().V1().Services().Informer()
	},
	fwk.CompositePodGroup: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Scheduling().V1alpha3().CompositePodGroups().Informer()
	},
	fwk.PodGroup: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Scheduling().V1beta1().PodGroups().Informer()
	},
}

// informerFor returns the informer of a resource: one that fwk names, or
// "<plural>.<version>.<group>" of any other kind, as upstream's addAllEventHandlers reads it.
func informerFor(scope *informers.Scope, resource fwk.EventResource) (toolscache.SharedIndexInformer, error) {
	if get, ok := builtin[resource]; ok {
		return get(scope), nil
	}
	if strings.Count(string(resource), ".") < 2 {
		return nil, errors.New(`not a resource that the scheduler knows; custom resources are named ` +
			`<plural>.<version>.<group>, as in "foos.v1.example.com"`)
	}
	gvr, _ := schema.ParseResourceArg(string(resource))
	return scope.Dynamic(*gvr)
}
