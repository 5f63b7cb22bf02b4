// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// awaited names the events that a pod waits for, each with a single action, sorted by name.
func awaited(events []queue.AwaitedEvent) []v1alpha1.EventAwaited {
	plugins := map[string]sets.Set[string]{}
	for _, e := range events {
		for _, action := range actionsOf(e.Event.ActionType) {
			name := string(e.Event.Resource) + "/" + action
			if plugins[name] == nil {
				plugins[name] = sets.New[string]()
			}
			plugins[name].Insert(e.Plugins...)
		}
	}
	var named []v1alpha1.EventAwaited
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		named = append(named, v1alpha1.EventAwaited{Event: name, Plugins: sets.List(plugins[name])})
	}
	return named
}

// actionsOf returns the names of the actions that are combined in one value.
func actionsOf(combined fwk.ActionType) []string {
	if combined == fwk.All {
		return []string{"All"}
	}
	var actions []string
	if combined&fwk.Update == fwk.Update {
		actions, combined = append(actions, "Update"), combined&^fwk.Update
	}
	for bit := fwk.ActionType(1); bit > 0 && bit <= combined; bit <<= 1 {
		if name := (combined & bit).String(); combined&bit != 0 && name != "" {
			actions = append(actions, name)
		}
	}
	return actions
}
