// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/podstatus"
)

// DefaultAnnounceAfter is the AnnounceAfter of the scheduler. Claims for devices are written in
// less time, unless the API server is slow. The announcement would be one of the four requests that
// such a pod costs.
const DefaultAnnounceAfter = 100 * time.Millisecond

// announceLater announces the node to other components, such as cluster autoscalers (KEP-5278),
// unless the returned function is called within AnnounceAfter. That function must be called before
// Bind, and before the nomination is cleared: it waits for an announcement that has begun.
//
// kube-scheduler announces the node at once. Nobody acts on a nomination that is replaced by the
// binding a moment later.
func (b *Binder) announceLater(ctx context.Context, c *Cycle) (end func()) {
	ended := make(chan struct{})
	timer := time.AfterFunc(b.AnnounceAfter, func() {
		defer close(ended)
		if err := podstatus.SetNominatedNode(ctx, b.Client, c.Pod.Pod, c.NodeName); err != nil {
			// The placement is valid without the announcement.
			klog.FromContext(ctx).Error(err, "Writing the nominated node failed", "pod", klog.KObj(c.Pod.Pod), "node",
				c.NodeName)
		}
	})
	return func() {
		if !timer.Stop() {
			<-ended
		}
	}
}
