// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
)

// alarms are the errors that livesched logs and that must not happen, whatever goes wrong around
// it. All goroutines of livesched use it. It implements logr.LogSink.
type alarms struct {
	mu   sync.Mutex // guards text
	text []string
}

// alarming are the messages of these errors.
var alarming = []string{"The fast path came to another decision than the scalar path"}

func (a *alarms) logger() logr.Logger { return logr.New(a) }

// take returns the alarms since the last time.
func (a *alarms) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := a.text
	a.text = nil
	return text
}

// Init implements logr.LogSink.
func (*alarms) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (*alarms) Enabled(int) bool { return false }

// Info implements logr.LogSink.
func (*alarms) Info(int, string, ...any) {}

// Error implements logr.LogSink.
func (a *alarms) Error(err error, message string, keysAndValues ...any) {
	if slices.Contains(alarming, message) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.text = append(a.text, fmt.Sprint(message, ": ", err, " ", keysAndValues))
	}
}

// WithValues implements logr.LogSink.
func (a *alarms) WithValues(...any) logr.LogSink { return a }

// WithName implements logr.LogSink.
func (a *alarms) WithName(string) logr.LogSink { return a }
