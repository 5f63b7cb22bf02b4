// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/test/leaks"
	"github.com/livesched/livesched/test/objects"
)

func TestMain(m *testing.M) {
	leaks.Main(m)
}

var errOutOfOrder = errors.New("out of order")

// server stores pods, and reports changes with a delay, as informers do.
type server struct {
	mu sync.Mutex // guards the fields below
	// pods are the stored pods, seen those that informers have.
	pods, seen map[types.UID]*corev1.Pod
	patches    int
	failed     []string
	// busy are the pods that are being patched: at most one patch per pod.
	busy map[types.UID]bool
	// answer is called before a patch is applied. It may block or fail.
	answer func(pod *corev1.Pod) error
	// lost, if not nil, replaces the response to a patch that was applied.
	lost error
}

func newServer(pods ...*corev1.Pod) *server {
	s := &server{pods: map[types.UID]*corev1.Pod{}, seen: map[types.UID]*corev1.Pod{}, busy: map[types.UID]bool{},
		answer: func(*corev1.Pod) error { return nil }}
	for _, pod := range pods {
		s.pods[pod.UID], s.seen[pod.UID] = pod, pod
	}
	return s
}

func (s *server) writer() *Writer { return NewWriter(clientOf{patch: s.patch}, s) }

// clientOf is a client that can only patch pods. That of package fake sends one request at a time.
type clientOf struct {
	clientset.Interface
	corev1client.CoreV1Interface
	corev1client.PodInterface
	patch func(ctx context.Context, podName string, patch []byte) error
}

func (c clientOf) CoreV1() corev1client.CoreV1Interface  { return c }
func (c clientOf) Pods(string) corev1client.PodInterface { return c }
func (c clientOf) RESTClient() rest.Interface            { return nil }
func (c clientOf) Patch(ctx context.Context, name string, _ types.PatchType, patch []byte, _ metav1.PatchOptions,
	_ ...string) (*corev1.Pod, error) {
	return nil, c.patch(ctx, name, patch)
}

// Newest implements Pods.
func (s *server) Newest(pod *corev1.Pod) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[pod.UID]
}

// NotWritten implements Pods.
func (s *server) NotWritten(_ context.Context, pod *corev1.Pod, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = append(s.failed, pod.Name+": "+err.Error())
}

func (s *server) patch(_ context.Context, podName string, patch []byte) error {
	pod := newPod(podName)
	s.mu.Lock()
	if s.busy[pod.UID] {
		panic("a pod is patched twice at the same time")
	}
	s.busy[pod.UID] = true
	s.patches++
	answer := s.answer
	s.mu.Unlock()
	err := answer(pod)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[pod.UID] = false
	before := s.pods[pod.UID]
	if err != nil || before == nil {
		return err
	}
	old, err := json.Marshal(before)
	if err != nil {
		return err
	}
	merged, err := strategicpatch.StrategicMergePatch(old, patch, &corev1.Pod{})
	if err != nil {
		return err
	}
	after := &corev1.Pod{}
	if err := json.Unmarshal(merged, after); err != nil {
		return err
	}
	if after.UID != before.UID {
		panic("the patch is of another pod")
	}
	s.pods[pod.UID] = after
	return s.lost
}

// catchUp makes informers see everything.
func (s *server) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = maps.Clone(s.pods)
}

func (s *server) answerWith(answer func(pod *corev1.Pod) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// expect compares the reason of a pod's condition and its nominated node.
func (s *server) expect(t *testing.T, pod *corev1.Pod, want string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := says(s.pods[pod.UID]); got != want {
		t.Errorf("pod %s says %q, want %q", pod.Name, got, want)
	}
}

func (s *server) expectPatches(t *testing.T, want int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.patches != want {
		t.Errorf("there were %d patches, want %d", s.patches, want)
	}
}

func says(pod *corev1.Pod) string {
	_, condition := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	if condition == nil {
		condition = &corev1.PodCondition{}
	}
	return condition.Message + "@" + pod.Status.NominatedNodeName
}

func newPod(name string) *corev1.Pod {
	pod := objects.Stored("ns", name)
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
	return pod
}

func because(message string) *corev1.PodCondition {
	return &corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: message}
}

func nominate(node string) *fwk.NominatingInfo {
	return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
}

func end(w *Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	w.Close(ctx)
}

func TestWrite(t *testing.T) {
	noop := &fwk.NominatingInfo{NominatingMode: fwk.ModeNoop, NominatedNodeName: "n2"}
	for name, test := range map[string]struct {
		before, told Update
		want         string
		patched      bool
	}{
		"nothing":  {Update{}, Update{}, "@", false},
		"a reason": {Update{}, Update{Condition: because("no room")}, "no room@", true},
		"the reason that it has": {Update{Condition: because("no room")},
			Update{Condition: because("no room")}, "no room@", false},
		"another reason": {Update{Condition: because("no room")},
			Update{Condition: because("no disk")}, "no disk@", true},
		"a node": {Update{}, Update{Nominating: nominate("n1")}, "@n1", true},
		"the node that it has": {Update{Nominating: nominate("n1")},
			Update{Nominating: nominate("n1")}, "@n1", false},
		"no node any more": {Update{Nominating: nominate("n1")}, Update{Nominating: nominate("")},
			"@", true},
		"no node for one that has none":   {Update{}, Update{Nominating: nominate("")}, "@", false},
		"nothing of the node that it has": {Update{Nominating: nominate("n1")}, Update{}, "@n1", false},
		"no change of the node by its mode": {Update{Nominating: nominate("n1")}, Update{Nominating: noop}, "@n1",
			false},
		"the reason that it has, and another n": {Update{Condition: because("no room")},
			Update{Condition: because("no room"), Nominating: nominate("n1")}, "no room@n1", true},
		"another reason, and the node it has": {Update{Condition: because("no room"), Nominating: nominate("n1")},
			Update{Condition: because("no disk"), Nominating: nominate("n1")}, "no disk@n1", true},
	} {
		for _, informed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, informed %v", name, informed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					pod := newPod("pod")
					s := newServer(pod)
					w := s.writer()
					w.Start(t.Context())
					test.before.Pod, test.told.Pod = pod, pod
					w.Write(test.before)
					synctest.Wait()
					if informed {
						s.catchUp()
					}
					s.patches = 0
					w.Write(test.told)
					synctest.Wait()
					s.expect(t, pod, test.want)
					if patched := s.patches > 0; patched != test.patched && informed {
						t.Errorf("patched: %v", patched)
					}
					if n := len(s.pods[pod.UID].Status.Conditions); n > 2 {
						t.Errorf("it has %d conditions", n)
					}
					end(w)
				})
			})
		}
	}

	t.Run("takes place at the API server", func(t *testing.T) {
		pod := newPod("pod")
		client := fake.NewClientset(pod)
		patch, err := patchFor(pod, Update{}, Update{Condition: because("no room")})
		if err != nil {
			t.Fatal(err)
		}
		if err := apply(t.Context(), client, pod, patch); err != nil {
			t.Fatal(err)
		}
		stored, err := client.CoreV1().Pods("ns").Get(t.Context(), "pod", metav1.GetOptions{})
		if err != nil || says(stored) != "no room@" || len(stored.Status.Conditions) != 2 {
			t.Errorf("it says %q in %v (%v)", says(stored), stored.Status.Conditions, err)
		}
		if pod.Status.Conditions[0].Type != corev1.PodReadyToStartContainers || len(pod.Status.Conditions) != 1 {
			t.Error("an informer's object was written to")
		}
	})
}

func TestEarlierConditionIsWrittenAgainDespiteStaleInformers(t *testing.T) {
	for name, between := range map[string]error{
		"although another update was queued since": nil,
		"although another update failed":           errOutOfOrder, // and was executed: only the response was lost
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := newPod("pod")
				s := newServer(pod)
				w := s.writer()
				w.Start(t.Context())
				w.Write(Update{Pod: pod, Condition: because("no room"), Nominating: nominate("n1")})
				synctest.Wait()
				s.catchUp()
				s.lost = between
				w.Write(Update{Pod: pod, Condition: because("no disk")})
				synctest.Wait()
				s.expect(t, pod, "no disk@n1")
				s.lost = nil
				w.Write(Update{Pod: pod, Condition: because("no room")})
				synctest.Wait()
				s.expect(t, pod, "no room@n1")
				s.lost = between
				w.Write(Update{Pod: pod, Nominating: nominate("n2")})
				synctest.Wait()
				s.lost = nil
				w.Write(Update{Pod: pod, Nominating: nominate("n1")})
				end(w)
				s.expect(t, pod, "no room@n1")
			})
		})
	}
}

func TestUpdatesDuringAWriteAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := newPod("pod")
		s := newServer(pod)
		w := s.writer()
		w.Start(t.Context())
		answer := make(chan error)
		s.answerWith(func(*corev1.Pod) error { return <-answer })
		w.Write(Update{Pod: pod, Condition: because("no room"), Nominating: nominate("n1")})
		synctest.Wait() // the patch is under way
		w.Write(Update{Pod: pod, Condition: because("no disk")})
		w.Write(Update{Pod: pod, Nominating: nominate("n2")})
		w.Write(Update{Pod: pod, Condition: because("no luck")})
		answer <- nil
		synctest.Wait()
		s.expect(t, pod, "no room@n1")
		answer <- nil
		synctest.Wait()
		s.expect(t, pod, "no luck@n2")
		s.expectPatches(t, 2)
		end(w)
	})
}

func TestSettle(t *testing.T) {
	t.Run("drops the waiting update", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			pods := []*corev1.Pod{newPod("pod")}
			for i := range workers {
				pods = append(pods, newPod(fmt.Sprint("other-", i)))
			}
			s := newServer(pods...)
			w := s.writer()
			w.Start(t.Context())
			answer := make(chan error)
			s.answerWith(func(*corev1.Pod) error { return <-answer })
			for _, other := range pods[1:] {
				w.Write(Update{Pod: other, Condition: because("no room")})
			}
			synctest.Wait() // every worker waits for the API server
			w.Write(Update{Pod: pods[0], Condition: because("no room")})
			w.Settle(t.Context(), pods[0].UID)
			close(answer)
			synctest.Wait()
			s.expect(t, pods[0], "@")
			s.expectPatches(t, workers)

			w.Write(Update{Pod: pods[0], Condition: because("no luck")})
			w.Settle(t.Context(), pods[0].UID)
			w.Write(Update{Pod: pods[0], Condition: because("no disk")})
			synctest.Wait()
			s.expect(t, pods[0], "no disk@")
			end(w)
		})
	})

	t.Run("waits for the update in progress", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			pod := newPod("pod")
			s := newServer(pod)
			w := s.writer()
			w.Start(t.Context())
			s.answerWith(func(*corev1.Pod) error {
				<-time.After(time.Second)
				return nil
			})
			w.Write(Update{Pod: pod, Condition: because("no room")})
			synctest.Wait()
			began := time.Now()
			w.Settle(t.Context(), pod.UID)
			if took := time.Since(began); took != time.Second {
				t.Errorf("it took %v", took)
			}
			w.Settle(t.Context(), pod.UID) // there is nothing to wait for

			w.Write(Update{Pod: pod, Condition: because("no disk")})
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			began = time.Now()
			w.Settle(ctx, pod.UID)
			if took := time.Since(began); took != time.Millisecond {
				t.Errorf("it took %v when there was no more time", took)
			}
			end(w)
		})
	})

	t.Run("drops the update of a deleted pod", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			pod := newPod("pod")
			s := newServer(pod)
			delete(s.seen, pod.UID)
			w := s.writer()
			w.Start(t.Context())
			w.Write(Update{Pod: pod, Condition: because("no room")})
			end(w)
			s.expectPatches(t, 0)
		})
	})
}

func TestAStatusThatCannotBeWrittenIsReported(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "pod")
	invalid := func(path ...string) error {
		status := field.NewPath("status")
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "pod", field.ErrorList{
			field.Forbidden(status.Child(path[0], path[1:]...),
				"may not be set on pods that are already bound to a node"),
		})
	}
	for name, test := range map[string]struct {
		err  error
		want []string
	}{
		"unless the pod is gone":                  {gone, nil},
		"unless another client has bound the pod": {invalid("nominatedNodeName"), nil},
		"if the API server refuses another of its fields": {invalid("phase"),
			[]string{"pod: " + invalid("phase").Error()}},
		"otherwise": {errOutOfOrder, []string{"pod: out of order"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := newPod("pod")
				s := newServer(pod)
				w := s.writer()
				w.Start(t.Context())
				s.answerWith(func(*corev1.Pod) error { return test.err })
				w.Write(Update{Pod: pod, Condition: because("no room")})
				synctest.Wait()
				if !slices.Equal(s.failed, test.want) {
					t.Errorf("reported: %q", s.failed)
				}
				s.answerWith(func(*corev1.Pod) error { return nil })
				w.Write(Update{Pod: pod, Condition: because("no room")})
				end(w)
				s.expect(t, pod, "no room@")
			})
		})
	}
}

func TestAHangingAPIServerDoesNotHoldUpTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 10_000
		var all []*corev1.Pod
		for i := range pods {
			all = append(all, newPod(fmt.Sprint(i)))
		}
		s := newServer(all...)
		w := s.writer()
		w.Start(t.Context())
		answer := make(chan error)
		s.answerWith(func(*corev1.Pod) error { return <-answer })
		for _, pod := range all {
			w.Write(Update{Pod: pod, Condition: because("no room")}) // a deadlock of the bubble if it waited
		}
		synctest.Wait()
		w.Write(Update{Pod: all[pods-1], Condition: because("no disk")})
		close(answer)
		end(w)
		s.expect(t, all[0], "no room@")
		s.expect(t, all[pods-2], "no room@")
		s.expect(t, all[pods-1], "no disk@")
		s.expectPatches(t, pods)
	})
}

func TestCloseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods []*corev1.Pod
		for i := range 100 {
			pods = append(pods, newPod(fmt.Sprint(i)))
		}
		s := newServer(pods...)
		w := NewWriter(clientOf{patch: func(ctx context.Context, _ string, _ []byte) error {
			<-ctx.Done()
			return ctx.Err()
		}}, s)
		w.Start(t.Context())
		for _, pod := range pods {
			w.Write(Update{Pod: pod, Condition: because("no room")})
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		began := time.Now()
		w.Close(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		w.Write(Update{Pod: newPod("late"), Condition: because("no room")})
		if len(s.failed) > 0 {
			t.Errorf("reported: %q", s.failed)
		}
	})
}

// TestEveryPodGetsItsLastUpdate writes many statuses from many goroutines, with informers that
// lag behind and an API server that fails.
func TestEveryPodGetsItsLastUpdate(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pods = 10
				s := newServer()
				var all []*corev1.Pod
				for i := range pods {
					all = append(all, newPod(fmt.Sprint(i)))
					s.pods[all[i].UID], s.seen[all[i].UID] = all[i], all[i]
				}
				w := s.writer()
				w.Start(t.Context())
				var mu sync.Mutex // guards dice
				dice := rand.New(rand.NewPCG(seed, 1))
				roll := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return dice.IntN(n)
				}
				s.answerWith(func(*corev1.Pod) error {
					<-time.After(time.Duration(roll(20)) * time.Millisecond)
					if roll(10) == 0 {
						return errOutOfOrder
					}
					return nil
				})
				var speakers sync.WaitGroup
				var last [pods]Update
				for i, pod := range all {
					speakers.Go(func() {
						for range 200 {
							u := Update{Pod: pod, Condition: because(fmt.Sprint("reason ", roll(3)))}
							if roll(2) == 0 {
								u.Nominating = nominate([]string{"", "n1", "n2"}[roll(3)])
								last[i].Nominating = u.Nominating
							}
							last[i].Condition = u.Condition
							w.Write(u)
							<-time.After(time.Duration(roll(15)) * time.Millisecond)
							if roll(3) == 0 {
								s.catchUp()
							}
						}
					})
				}
				speakers.Wait()
				s.answerWith(func(*corev1.Pod) error { return nil })
				for i, pod := range all { // the next attempt writes what failed
					last[i].Pod = pod
					w.Write(last[i])
				}
				end(w)
				for i, pod := range all {
					want := last[i].Condition.Message + "@"
					if last[i].Nominating != nil {
						want += last[i].Nominating.NominatedNodeName
					}
					s.expect(t, pod, want)
				}
			})
		})
	}
}
