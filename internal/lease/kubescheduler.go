// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// KubeScheduler is the Lease that a kube-scheduler holds while it runs.
var KubeScheduler = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "kube-scheduler"}

// defaultDuration is the duration of a Lease that names none.
const defaultDuration = 15 * time.Second

// Duration returns how long a renewal of a Lease lasts.
func Duration(lease *coordinationv1.Lease) time.Duration {
	if seconds := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0); seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return defaultDuration
}

// Fresh reports whether a Lease was renewed in time, by the clock of its holder. Clocks may differ
// by the tolerance.
func Fresh(lease *coordinationv1.Lease, now time.Time, tolerance time.Duration) bool {
	return lease.Spec.RenewTime != nil && now.Sub(lease.Spec.RenewTime.Time) <= Duration(lease)+tolerance
}
