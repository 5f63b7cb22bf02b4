// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
)

// boundExtender is an extender that knows which context its calls end with.
type boundExtender struct {
	fwk.Extender
	ctx context.Context
}

func (boundExtender) Within(ctx context.Context) fwk.Extender { return boundExtender{ctx: ctx} }

// plainExtender has no calls that could end with a context.
type plainExtender struct{ fwk.Extender }

type extendedHandle struct {
	fwk.Handle
	extenders []fwk.Extender
}

func (h extendedHandle) Extenders() []fwk.Extender { return h.extenders }

func TestExtendersAreCalledWithinTheSchedulingCycle(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	handle := extendedHandle{extenders: []fwk.Extender{boundExtender{}, plainExtender{}}}
	got := inCycle(ctx, handle).Extenders()
	if bound, ok := got[0].(boundExtender); !ok || bound.ctx != ctx {
		t.Errorf("the first is %#v", got[0])
	}
	if len(got) != 2 || got[1] != handle.extenders[1] {
		t.Errorf("got %#v", got)
	}
	without := &extendedHandle{}
	if inCycle(ctx, without) != fwk.Handle(without) {
		t.Error("a handle without extenders is replaced")
	}
}
