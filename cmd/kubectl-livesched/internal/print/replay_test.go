// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/replay/report"
)

func TestPrintReplay(t *testing.T) {
	snapshot := &capture.Snapshot{
		Header: capture.Header{
			Livesched: "v1", Kubernetes: "1.36", Time: time.Date(2026, 11, 23, 9, 46, 3, 0, time.UTC),
			Profiles: []capture.Profile{{Name: "b", Revision: "r2"}, {Name: "a", Revision: "r1"}},
		},
		Nodes: make([]*corev1.Node, 1200), Pods: make([]*corev1.Pod, 3), Pending: make([]*corev1.Pod, 1),
	}
	different := func(n int) []report.Difference {
		var all []report.Difference
		for i := range n {
			all = append(all, report.Difference{
				Decision: capture.Decision{Number: uint64(i + 1)}, Namespace: "default", Pod: "web",
				Then: "n1: fits 3, 1 best with 200", Now: "fits no node",
			})
		}
		return all
	}
	for name, test := range map[string]struct {
		result   report.Report
		redacted bool
		unusable map[string]error
		want     string
	}{
		"all the same": {
			result: report.Report{Decisions: 1500, Same: 1500}, redacted: true,
			want: `Redacted snapshot of 2026-11-23 09:46:03 UTC by livesched v1 (Kubernetes 1.36): 1,200 nodes, 4 pods,
  1 of them pending.
Profiles: a@r1, b@r2
DECISIONS   COUNT   REASON
same        1,500   -
different   0       -
`,
		},
		"with a difference": {
			result: report.Report{Decisions: 3, Different: different(1),
				Left: map[report.Reason]int{report.PodGone: 2, report.Changed: 1}},
			unusable: map[string]error{"b": errors.New("unknown plugin")},
			want: `Snapshot of 2026-11-23 09:46:03 UTC by livesched v1 (Kubernetes 1.36): 1,200 nodes, 4 pods, 1 of
  them pending.
Profiles: a@r1, b@r2
The profile b cannot be used: unknown plugin
DECISIONS        COUNT   REASON
same             0       -
different        1       -
not made again   2       the pod is not in the snapshot: it is gone
not made again   1       the state at that time is not in the snapshot: nodes or pods have changed
                         since
NUMBER   POD           RECORDED                      NOW
1        default/web   n1: fits 3, 1 best with 200   fits no node
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot.Header.Redacted = test.redacted
			var out bytes.Buffer
			if err := Replay(terminal.Plain(&out, 100), snapshot, test.unusable, &test.result, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for wide, rows := range map[bool]int{false: fewDifferences, true: fewDifferences + 5} {
		var out bytes.Buffer
		if err := printDifferences(&out, different(fewDifferences+5), wide); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "default/web"); got != rows ||
			strings.Contains(out.String(), "And 5 more: use -o wide.") == wide {
			t.Errorf("wide=%v: %d rows in\n%s", wide, got, out.String())
		}
	}
}
