// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// random draws decisions about few pods, nodes and profiles, so that they repeat.
type random struct {
	*rand.Rand
	pods []types.UID
}

func newRandom(t testing.TB, pods int) *random {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0))}
	for range pods {
		var k key
		for i := range k {
			k[i] = byte(r.Uint32())
		}
		r.pods = append(r.pods, k.uid())
	}
	return r
}

func (r *random) decision() Decision {
	i := r.IntN(len(r.pods))
	d := Decision{
		Pod: r.pods[i], Namespace: fmt.Sprintf("namespace-%d", i%3), Name: fmt.Sprintf("pod-%d", i),
		Time: time.Unix(0, r.Int64()), Attempt: r.IntN(100),
		Profile: fmt.Sprintf("profile-%d", r.IntN(3)), Revision: fmt.Sprintf("revision-%d", r.IntN(5)),
		Changes: r.Uint64(), Placed: r.IntN(100), Class: cache.ClassID(r.Uint64()), Nodes: r.IntN(100),
		Result:    Unschedulable,
		Nominated: r.IntN(2) == 0, Partial: r.IntN(2) == 0,
	}
	switch r.IntN(10) {
	case 0:
		d.Group = fmt.Sprintf("group-%d", r.IntN(4))
	case 1:
		d.Group, d.Pod, d.Name = fmt.Sprintf("group-%d", r.IntN(4)), "", ""
	}
	for i := range r.IntN(podgroup.MaxKeys + 1) {
		d.Domain = append(d.Domain,
			podgroup.DomainLabel{Key: fmt.Sprintf("key-%d", i), Value: fmt.Sprintf("value-%d", r.IntN(4))})
	}
	if r.IntN(3) > 0 {
		d.Node, d.Total, d.Tied, d.Result = fmt.Sprintf("node-%d", r.IntN(20)), r.Int64N(1000), 1+r.IntN(10), Binding
		d.Evaluated, d.Feasible = r.IntN(100), r.IntN(100)
	}
	return d
}

// TestLogEqualsAList does the same with the log and with a list of all decisions.
func TestLogEqualsAList(t *testing.T) {
	for range 50 {
		r := newRandom(t, 30)
		log := New(1 + r.IntN(70))
		var all []Decision
		var sampled []int // the decisions of which the log has the top nodes
		for range 300 {
			d := r.decision()
			number := log.Append(&d)
			d.Number = number
			if all = append(all, d); number != Number(len(all)) {
				t.Fatalf("the decision has number %d, want %d", number, len(all))
			}
			if r.IntN(8) == 0 {
				all[len(all)-1].Top = []fwk.NodePluginScores{{Name: d.Node, TotalScore: r.Int64()}}
				log.SetTop(number, all[len(all)-1].Top, d.Time, 0)
				sampled = append(sampled, len(all)-1)
				if most := len(log.samples); len(sampled) > most {
					all[sampled[0]].Top = nil
					sampled = sampled[1:]
				}
			}
			kept := all[max(0, len(all)-log.size):]
			if r.IntN(2) == 0 {
				i := r.IntN(len(all))
				result := Result(1 + r.IntN(5))
				log.Finish(all[i].Number, result)
				if len(all)-i <= log.size {
					all[i].Result = result
				}
			}
			r.explain(log, all)
			checkLog(t, r, log, kept)
		}
		checkNames(t, log, all[max(0, len(all)-log.size):])
	}
}

// checkLog checks what the log returns against the decisions that it must have, oldest first.
func checkLog(t *testing.T, r *random, log *Log, kept []Decision) {
	t.Helper()
	pod := r.pods[r.IntN(len(r.pods))]
	got, ok := log.OfPod(pod)
	var want Decision
	for _, d := range kept {
		if d.Pod == pod {
			want = d
		}
	}
	if ok != (want.Number != 0) || !reflect.DeepEqual(got, want) {
		t.Fatalf("the latest decision for %s is %+v, %v, want %+v", pod, got, ok, want)
	}
	checkSelected(t, r, log, kept)
	n := r.IntN(50)
	last := kept[max(0, len(kept)-n):]
	if got := log.Last(n); len(got) != len(last) || len(got) > 0 && !reflect.DeepEqual(got, last) {
		t.Fatalf("the last %d decisions are\n%+v, want\n%+v", n, got, last)
	}
}

// explain sets messages in the log and in the list of all decisions.
func (r *random) explain(log *Log, all []Decision) {
	message, i := fmt.Sprint("message ", r.IntN(20)), r.IntN(len(all))
	kept := max(0, len(all)-log.size)
	switch r.IntN(8) {
	case 0:
		log.Explain(all[i].Number, message)
		if i >= kept {
			all[i].Message = message
		}
	case 1:
		log.ExplainFrom(all[i].Number, message)
		for i := max(i, kept); i < len(all); i++ {
			if all[i].Result == Unschedulable && all[i].Message == "" {
				all[i].Message = message
			}
		}
	}
}

// checkSelected checks what a random filter selects from the decisions that the log must have.
func checkSelected(t *testing.T, r *random, log *Log, kept []Decision) {
	t.Helper()
	example, f := r.decision(), Filter{}
	for field, value := range map[*string]string{
		&f.Namespace: example.Namespace, &f.Pod: example.Name, &f.Group: example.Group, &f.Profile: example.Profile,
		&f.Node: example.Node,
	} {
		if r.IntN(5) == 0 {
			*field = value
		}
	}
	if r.IntN(4) == 0 {
		f.Result = example.Result
	}
	if r.IntN(4) == 0 && len(kept) > 0 {
		f.After = kept[r.IntN(len(kept))].Number
	}
	var want, got []Decision
	for _, d := range slices.Backward(kept) {
		if (f.Namespace == "" || f.Namespace == d.Namespace) && (f.Pod == "" || f.Pod == d.Name) &&
			(f.Group == "" || f.Group == d.Group) &&
			(f.Profile == "" || f.Profile == d.Profile) && (f.Node == "" || f.Node == d.Node) &&
			(f.Result == 0 || f.Result == d.Result) && d.Number > f.After {
			want = append(want, d)
		}
	}
	limit := 1 + r.IntN(100)
	if err := log.Select(t.Context(), &f, func(d *Decision) bool {
		got = append(got, *d)
		return len(got) < limit
	}); err != nil {
		t.Fatal(err)
	}
	if want = want[:min(len(want), limit)]; !reflect.DeepEqual(got, want) {
		t.Fatalf("the filter %+v selects\n%+v, want\n%+v", f, got, want)
	}
}

// checkNames checks that the log keeps the names of the decisions that it has, and no others.
func checkNames(t *testing.T, log *Log, kept []Decision) {
	t.Helper()
	want, messages := map[string]bool{}, map[string]bool{}
	for _, d := range kept {
		messages[d.Message] = true
		want[d.Namespace], want[d.Group] = true, true
		want[d.Node], want[d.Profile], want[d.Revision] = true, true, true
		want[d.Domain.String()] = true
	}
	delete(want, "")
	delete(messages, "")
	bytes := 0
	for message := range messages {
		bytes += len(message)
	}
	if got := len(log.messages.handles); got != len(messages) || log.messages.bytes != bytes {
		t.Errorf("the log keeps %d messages of %d bytes, want %d of %d", got, log.messages.bytes, len(messages), bytes)
	}
	if got := len(log.names.handles); got != len(want) {
		t.Errorf("the log keeps %d names, want %d", got, len(want))
	}
	if got := len(log.names.held) - len(log.names.free); got != len(want) {
		t.Errorf("%d handles are in use, want %d", got, len(want))
	}
}

func TestUIDsAreKept(t *testing.T) {
	const uid = "3c5f0e1a-92b7-4d6c-8a41-f0e9d8c7b6a5"
	log := New(1)
	log.Append(&Decision{Pod: uid})
	if d, ok := log.OfPod(uid); !ok || d.Pod != uid {
		t.Errorf("the UID is %s, want %s", d.Pod, uid)
	}
}

func TestUIDsOfOtherForms(t *testing.T) {
	log := New(10)
	for _, uid := range []types.UID{"", "uid-1", "0123456789ABCDEF0123456789ABCDEF0123",
		"00000000-0000-0000-0000-00000000000g", "------------------------------------"} {
		n := log.Append(&Decision{Pod: uid, Node: "node"})
		if d, ok := log.OfPod(uid); !ok || d.Number != n {
			t.Errorf("the decision for %q was not found", uid)
		}
	}
	if _, ok := log.OfPod("uid-2"); ok {
		t.Error("there is a decision for a pod without one")
	}
}

func TestMessagesAreBounded(t *testing.T) {
	const size = 4000
	log := New(size)
	for i := range 2 * size {
		n := log.Append(&Decision{Pod: "a", Result: Unschedulable})
		log.Explain(n, fmt.Sprint(i, strings.Repeat("x", 2000)))
		if d, _ := log.OfPod("a"); len(d.Message) != maxMessage {
			t.Fatalf("the last message has %d bytes, want %d", len(d.Message), maxMessage)
		}
	}
	with := 0
	for _, d := range log.Last(size) {
		if d.Message != "" {
			with++
		} else if with > 0 {
			t.Fatal("a message was forgotten before an older one")
		}
	}
	if want := size * MessageBytesPerDecision / maxMessage; with != want ||
		log.messages.bytes > size*MessageBytesPerDecision {
		t.Errorf("%d messages of %d bytes are kept, want %d", with, log.messages.bytes, want)
	}
	oldest := log.Last(size)[0].Number
	if log.Explain(oldest, "late"); log.Last(size)[0].Message != "" {
		t.Error("a decision whose message would be forgotten has one")
	}
}

func TestResultsHaveNames(t *testing.T) {
	for r := Binding; r <= Failed; r++ {
		if got, ok := ResultOf(r.String()); !ok || got != r {
			t.Errorf("%s is %v", r, got)
		}
	}
	for _, name := range []string{"", "bound", "unknown"} {
		if r, ok := ResultOf(name); ok {
			t.Errorf("%q is %v", name, r)
		}
	}
}

func TestSelectEndsWithItsContext(t *testing.T) {
	log := New(1)
	log.Append(&Decision{Pod: "a"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Select(ctx, &Filter{}, func(*Decision) bool { t.Error("a decision"); return true }); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
}

func TestALogThatIsOff(t *testing.T) {
	log := New(0)
	if n := log.Append(&Decision{Pod: "a"}); n != 0 {
		t.Errorf("a decision got number %d", n)
	}
	log.Finish(1, Bound)
	log.Explain(1, "why")
	log.ExplainFrom(1, "why")
	if err := log.Select(t.Context(), &Filter{}, func(*Decision) bool { return true }); err != nil ||
		log.Newest() != 0 {
		t.Errorf("%v, %d decisions", err, log.Newest())
	}
	if _, ok := log.OfPod("a"); ok || log.Last(1) != nil {
		t.Error("there are decisions")
	}
}

func TestAnEmptyLogTakesNoMemory(t *testing.T) {
	log := New(DefaultSize)
	if _, ok := log.OfPod("a"); ok || len(log.Last(5)) != 0 || log.ring != nil {
		t.Error("the log is not empty")
	}
}

func TestADecisionTakesAsMuchMemoryAsStated(t *testing.T) {
	if got := unsafe.Sizeof(entry{}) + unsafe.Sizeof("") + unsafe.Sizeof(Number(0)); got != 144 { // see DefaultSize
		t.Errorf("a decision takes %d bytes, want 144", got)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	r := newRandom(t, 30)
	log := New(64)
	decisions := make([]Decision, 64)
	for i := range decisions {
		decisions[i] = r.decision()
		log.Append(&decisions[i])
	}
	messages := []string{"0/5 nodes are available: 5 Insufficient cpu.", "sorry"}
	for i, message := range messages {
		log.Explain(Number(i+1), message)
	}
	i := 0
	if allocs := testing.AllocsPerRun(1000, func() {
		i = (i + 1) % len(decisions)
		n := log.Append(&decisions[i])
		log.Finish(n, Bound)
		log.Explain(n, messages[i%len(messages)])
	}); allocs != 0 {
		t.Errorf("recording allocates %v times", allocs)
	}
}

// TestReadersBesideTheLoop is for the race detector, and checks that readers see whole decisions.
func TestReadersBesideTheLoop(t *testing.T) {
	const appends = 20000
	r := newRandom(t, 100)
	log := New(200)
	decisions := make([]Decision, 500)
	for i := range decisions {
		d := r.decision()
		d.Node = string(d.Pod) // so that readers can check that they belong together
		decisions[i] = d
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				last := log.Last(1 + i%300)
				for j, d := range last {
					if d.Node != string(d.Pod) || j > 0 && d.Number != last[j-1].Number+1 {
						t.Errorf("decision %d for %s has node %s", d.Number, d.Pod, d.Node)
						return
					}
				}
				if d, ok := log.OfPod(r.pods[i%len(r.pods)]); ok && d.Pod != r.pods[i%len(r.pods)] {
					t.Errorf("the decision for another pod: %v", d)
					return
				}
			}
		})
	}
	var binders sync.WaitGroup
	for i := range appends {
		n := log.Append(&decisions[i%len(decisions)])
		if i%10 == 0 {
			binders.Go(func() { log.Finish(n, Bound) })
		}
	}
	close(done)
	binders.Wait()
	readers.Wait()
}

func BenchmarkAppend(b *testing.B) {
	r := newRandom(b, 100000)
	log := New(DefaultSize)
	decisions := make([]Decision, len(r.pods))
	for i := range decisions {
		decisions[i] = r.decision()
		decisions[i].Pod = r.pods[i]
	}
	b.ReportAllocs()
	for i := range b.N {
		log.Finish(log.Append(&decisions[i%len(decisions)]), Bound)
	}
}

// BenchmarkLast reads the whole log.
func BenchmarkLast(b *testing.B) {
	r := newRandom(b, 1000)
	log := New(DefaultSize)
	for range DefaultSize {
		d := r.decision()
		log.Append(&d)
	}
	for range b.N {
		log.Last(DefaultSize)
	}
}
