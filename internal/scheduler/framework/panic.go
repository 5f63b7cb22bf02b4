// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"runtime/debug"

	"k8s.io/klog/v2"
)

// PanicError is the error of a pod whose plugin panicked.
type PanicError struct {
	// ExtensionPoint is the step at which the plugin was called, as in metrics: "Filter",
	// "ScoreExtensionNormalize" …
	ExtensionPoint string
	// Plugin is the name of the plugin, empty if the panic was in the Clone of a state of unknown
	// origin.
	Plugin string
	// Value is the value of the panic.
	Value any
}

func (e *PanicError) Error() string {
	if e.Plugin == "" {
		return fmt.Sprintf("a plugin's state panicked at %s: %v", e.ExtensionPoint, e.Value)
	}
	return fmt.Sprintf("plugin %q panicked at %s: %v", e.Plugin, e.ExtensionPoint, e.Value)
}

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// newPanicError logs the stack, which helps the plugin's author but does not belong in a pod's
// condition, and returns the error for the condition.
func newPanicError(ctx context.Context, point, plugin string, value any) *PanicError {
	stack := debug.Stack()
	if worker, ok := value.(*workerPanic); ok {
		value, stack = worker.value, worker.stack
	}
	err := &PanicError{ExtensionPoint: point, Plugin: plugin, Value: value}
	klog.FromContext(ctx).Error(err, "Plugin panicked",
		"plugin", plugin, "extensionPoint", point, "stack", string(stack))
	return err
}

// workerPanic carries a panic from a goroutine of Parallelizer to the waiting one.
type workerPanic struct {
	value any
	stack []byte
}

func (p *workerPanic) String() string {
	return fmt.Sprintf("%v\n\ngoroutine that panicked:\n%s", p.value, p.stack)
}
