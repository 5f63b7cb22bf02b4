// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/remote"
)

// answers checks that livesched answers on its secure port, as explain, status and others need it.
func (e *examination) answers(ctx context.Context) {
	var queues v1alpha1.QueueList
	_, err := e.Livesched.List(ctx, "queues", "", nil, &queues)
	switch {
	case err == nil:
		e.add(OK, "", "the leader answers, and schedules the pods of %s", profileCount(len(queues.Items)))
	case errors.Is(err, remote.ErrNoReplica):
		e.add(Unknown, "if livesched runs elsewhere, name its secure port with --livesched-url (LIVESCHED_URL)",
			"livesched was not asked: %v", err)
	case errors.Is(err, remote.ErrImpersonation):
		e.add(Unknown, "", "livesched was not asked: %v", err)
	case apierrors.IsForbidden(err):
		e.add(Unknown, "", "you may not ask livesched: %v", err)
	default:
		e.add(Failed, "see docs/troubleshoot.md: explain, decisions, status and top need these answers",
			"the leader does not answer: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

func profileCount(count int) string {
	if count == 1 {
		return "1 profile"
	}
	return fmt.Sprintf("%d profiles", count)
}
