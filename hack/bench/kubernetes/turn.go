// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livesched/livesched/hack/bench/cluster"
)

// The states of a result.
const (
	statusOK      = "ok"
	statusTimeout = "timeout"
	statusFailed  = "failed"
	statusSkipped = "skipped"
)

// outcome is the result of a turn.
type outcome struct {
	status, note string
	collections  []*collection
	// total is the time from the start of the control plane to its end.
	total time.Duration
	// differences is the number of decisions that --fast-path=verify found to differ.
	differences float64
}

// errLimit is the cause of the end of a turn that takes too long.
var errLimit = errors.New("the limit is reached")

// runTurn starts a control plane and the contender, and runs the operations.
func (b *bench) runTurn(ctx context.Context, t *turn, dir string) (o outcome) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	setup := time.AfterFunc(b.setupLimit,
		func() { end(fmt.Errorf("%w: %s without measuring", errLimit, b.setupLimit)) })
	defer setup.Stop()
	c, err := t.start(ctx, dir)
	if err != nil {
		return failed(err)
	}
	defer func() {
		if err := c.Stop(); err != nil && o.status == statusOK {
			o = failed(err)
		}
	}()
	e, err := newExecutor(ctx, t.plan, c.Config())
	if err != nil {
		return failed(err)
	}
	contender, err := b.startContender(ctx, t.contender, e, c)
	if err != nil {
		return failed(err)
	}
	e.observe = func() (seen observation, err error) {
		if seen.scheduler, err = contender.Usage(); err != nil {
			return seen, err
		}
		seen.api, err = (&cluster.Cluster{ControlPlane: c}).CPU()
		return seen, err
	}
	e.begin = func() func() {
		setup.Stop()
		measuring := time.AfterFunc(b.limit, func() { end(fmt.Errorf("%w: %s of measuring", errLimit, b.limit)) })
		return func() {
			measuring.Stop()
			setup.Reset(b.setupLimit)
		}
	}
	go func() {
		select {
		case <-contender.Done():
			end(contender.Err())
		case <-c.Done():
			end(c.Err())
		case <-ctx.Done():
		}
	}()
	err = e.runAll(ctx)
	alive := contender.Err() == nil
	differences, stopErr := contender.stop(context.WithoutCancel(ctx))
	o = outcome{status: statusOK, collections: e.done, differences: differences}
	switch {
	case errors.Is(err, errLimit):
		o.status, o.note = statusTimeout, brief(err)
	case err != nil:
		o.status, o.note = statusFailed, brief(err)
	case alive && stopErr != nil:
		o.status, o.note = statusFailed, brief(stopErr)
	case differences > 0:
		o.status, o.note = statusFailed, fmt.Sprintf("%.0f decisions differ between the two paths", differences)
	}
	return o
}

func failed(err error) outcome { return outcome{status: statusFailed, note: brief(err)} }

// brief returns the text of an error on one line that is not too long.
func brief(err error) string {
	const longest = 400
	text := []rune(err.Error())
	for i, r := range text {
		if r == '\n' || r == '|' {
			text[i] = ' '
		}
	}
	if len(text) > longest {
		text = append(text[:longest], '…')
	}
	return string(text)
}
