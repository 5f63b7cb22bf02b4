// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// opened returns an extender of which the circuit of a verb is open, and may be tried now. Requests
// of the verb arrive in the channel, and get no answer until release is closed.
func opened(t *testing.T, cfg resolve.Extender, verb string) (e *Extender, arrived chan string, release chan struct{}) {
	t.Helper()
	arrived, release = make(chan string, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- r.URL.Path
		select {
		case <-release:
			_, _ = io.WriteString(w, "{}")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	cfg.URLPrefix, cfg.Timeout = server.URL, time.Minute
	e, err := New(&cfg, Policy{Name: t.Name()}, NewBreakers(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	circuit := e.circuits[verb]
	for range maxFailures {
		circuit.conclude(time.Now(), 0, false, broken)
	}
	circuit.mu.Lock()
	circuit.retry = time.Now()
	circuit.mu.Unlock()
	return e, arrived, release
}

func (c *circuit) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

func nodesOf(names ...string) (nodes []fwk.NodeInfo) {
	for _, name := range names {
		node := &corev1.Node{}
		node.Name = name
		info := schedframework.NewNodeInfo()
		info.SetNode(node)
		nodes = append(nodes, info)
	}
	return nodes
}

func TestNoPodWaitsForAProbe(t *testing.T) {
	pod := &corev1.Pod{}
	for verb, call := range map[string]func(e *Extender) error{
		"filter": func(e *Extender) error {
			_, _, _, err := e.Filter(pod, nodesOf("n"))
			return err
		},
		"prioritize": func(e *Extender) error {
			_, _, err := e.Prioritize(pod, nodesOf("n"))
			return err
		},
		"preempt": func(e *Extender) error {
			_, err := e.ProcessPreemption(pod, nil, nil)
			return err
		},
	} {
		t.Run(verb, func(t *testing.T) {
			e, arrived, release := opened(t,
				resolve.Extender{FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt"}, verb)
			for range 2 { // the second one does not try again, as the first has not ended
				if err := call(e); err == nil ||
					!strings.Contains(err.Error(), "not called, since its last calls failed") {
					t.Errorf("the error is %v", err)
				}
			}
			if path := <-arrived; path != "/"+verb {
				t.Errorf("the probe called %s", path)
			}
			close(release)
			e.probes.running.Wait()
			if e.circuits[verb].isOpen() || len(arrived) > 0 {
				t.Errorf("open: %v, %d other calls", e.circuits[verb].isOpen(), len(arrived))
			}
		})
	}
}

func TestBindingIsItsOwnProbe(t *testing.T) {
	e, arrived, release := opened(t, resolve.Extender{BindVerb: "bind"}, "bind")
	close(release)
	if err := e.Bind(&corev1.Binding{}); err != nil {
		t.Error(err)
	}
	if <-arrived; e.circuits["bind"].isOpen() {
		t.Error("the circuit is open")
	}
}

func TestCloseEndsProbes(t *testing.T) {
	e, arrived, _ := opened(t, resolve.Extender{FilterVerb: "filter"}, "filter")
	if _, _, _, err := e.Filter(&corev1.Pod{}, nodesOf("n")); err == nil {
		t.Error("no error")
	}
	<-arrived
	e.Close()
	if e.probes.start(func(context.Context) {}) {
		t.Error("a probe starts after Close")
	}
	if circuit := e.circuits["filter"]; !circuit.isOpen() || circuit.probing {
		t.Error("a probe that was cut off counts")
	}
}

func TestAProbeThatFailsDoublesThePause(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	e, err := New(&resolve.Extender{URLPrefix: server.URL, FilterVerb: "filter", Timeout: time.Minute},
		Policy{Name: t.Name()}, NewBreakers(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	circuit := e.circuits["filter"]
	for range maxFailures + 3 {
		if _, _, _, err := e.Filter(&corev1.Pod{}, nodesOf("n")); err == nil {
			t.Fatal("no error")
		}
		e.probes.running.Wait()
		circuit.mu.Lock()
		circuit.retry = time.Now()
		circuit.mu.Unlock()
	}
	if circuit.pause != 8*minPause {
		t.Errorf("the pause is %v", circuit.pause)
	}
}
