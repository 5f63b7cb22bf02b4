// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/scheduler"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// livesched's namespace, with its Lease and its ControllerRevisions.
const ownNamespace = "livesched-system"

// replica is a livesched, whose process may end and begin again.
type replica struct {
	world   *World
	name    string
	starts  int
	process *process
	manager *app.Manager
	cancel  context.CancelFunc
	// ended is closed when the process has ended, with err.
	ended chan struct{}
	err   error
	// built has the manager once, and over is true if the world has seen that the process has
	// ended.
	built chan *app.Manager
	over  bool
}

// start starts the process.
func (r *replica) start() {
	w := r.world
	r.starts++
	name := fmt.Sprintf("%s-%d", r.name, r.starts)
	w.log.add("%s starts", name)
	r.process = &process{network: w.network, name: name, started: time.Now()}
	o := app.NewOptions()
	o.Secure.Port, o.MetricsBindAddress, o.HealthProbeBindAddress = 0, "0", "0"
	o.LeaderElectionNamespace, o.RevisionNamespace = ownNamespace, ownNamespace
	o.Host = name
	// Answers of plugins and decisions are dropped, as in a large cluster, and do not fill memory
	// all night.
	o.DecisionLogSize = 1000
	o.FastPathMemoryLimit.Quantity = resource.MustParse("2Mi")
	o.OutOfTree = framework.Registry{slowPlugin: w.slowness.newPlugin}
	if w.plan.Verify { // what changes in a pause between the two decisions would make a difference
		o.FastPath, o.OutOfTree = string(scheduler.FastPathVerify), framework.Registry{slowPlugin: newQuick}
	}
	config := &rest.Config{Host: "http://world", Transport: r.process, QPS: -1}
	ctx, cancel := context.WithCancel(klog.NewContext(w.ctx, w.alarms.logger()))
	r.cancel, r.ended, r.over, r.err, r.manager = cancel, make(chan struct{}), false, nil, nil
	ended, built := r.ended, make(chan *app.Manager, 1)
	r.built = built
	go func() {
		defer close(ended)
		manager, err := app.NewManager(config, o)
		if err != nil {
			r.err = err
			return
		}
		built <- manager
		r.err = manager.Start(ctx)
	}()
}

// look sees what the process has done. A process that has ended is started again, as a kubelet
// does.
func (r *replica) look() {
	select {
	case r.manager = <-r.built:
	default:
	}
	select {
	case <-r.ended:
		if r.over {
			return
		}
		r.over = true
		w := r.world
		w.log.add("%s has ended: %v", r.process.name, r.err)
		w.counts["process ended"]++
		w.interrupt(time.Now())
		r.process.disconnect()
		if !w.stopping {
			w.after(time.Second, r.start)
		}
	default:
	}
}

// replace ends the process, which can finish what it does.
func (r *replica) replace() {
	if r.over || !r.process.stopping.IsZero() {
		return
	}
	r.world.log.add("%s is replaced", r.process.name)
	r.world.counts["replaced"]++
	r.process.stopping = time.Now()
	r.cancel()
}

// kill ends the process at once: nothing that it does from now on is seen by others. Requests that
// it has sent may still be executed.
func (r *replica) kill() {
	r.world.log.add("%s is killed", r.process.name)
	r.world.counts["killed"]++
	r.world.interrupt(time.Now())
	r.process.disconnect()
	r.cancel()
}
