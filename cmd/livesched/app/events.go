// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
)

// broadcaster writes the Events of the controllers. The manager's own would go on to do that after
// the term of this replica, since its client is not guarded.
type broadcaster struct{ events.EventBroadcaster }

func newBroadcaster(client clientset.Interface) broadcaster {
	return broadcaster{events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})}
}

// run writes Events until ctx ends. Recorders do nothing after that.
func (b broadcaster) run(ctx context.Context) error {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if err := b.StartRecordingToSinkWithContext(writing); err != nil {
		return fmt.Errorf("recording Events: %w", err)
	}
	<-ctx.Done()
	b.Shutdown()
	return nil
}
