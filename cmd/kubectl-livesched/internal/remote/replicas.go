// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/livesched/livesched/internal/replicas"
)

// order returns the rank of a replica: the replica with the lowest rank is asked first.
type order func(r replicas.Replica) int

// leaderFirst asks the leader first: only it knows the attempts to schedule a pod. Then come
// the replicas that are ready.
func leaderFirst(r replicas.Replica) (rank int) {
	if !r.Leader {
		rank += 2
	}
	if !r.Ready {
		rank++
	}
	return rank
}

// followersFirst asks the replicas first that are ready and do not lead, and the leader before
// replicas that are not ready.
func followersFirst(r replicas.Replica) (rank int) {
	if !r.Ready {
		rank += 2
	}
	if r.Leader {
		rank++
	}
	return rank
}

// replicas returns the replicas that run.
func (l *Livesched) replicas(ctx context.Context) ([]replicas.Replica, error) {
	client, err := kubernetes.NewForConfig(l.Config)
	if err != nil {
		return nil, err
	}
	found, err := replicas.Find(ctx, client, l.Namespace, l.Lease)
	if err != nil {
		return nil, l.looking(err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w in namespace %s (label %s): see --livesched-namespace and --livesched-url",
			ErrNoReplica, l.Namespace, replicas.Selector)
	}
	return found, nil
}

// looking adds to an error what would permit the user to find livesched.
func (l *Livesched) looking(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: the Role livesched-client in %s permits it", err, l.Namespace)
	}
	return fmt.Errorf("looking for livesched in namespace %s: %w", l.Namespace, err)
}
