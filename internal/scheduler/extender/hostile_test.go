// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestRedirectsAreNotFollowed(t *testing.T) {
	var visits atomic.Int32
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	defer canary.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, canary.URL, status) }))
		e := build(t, everything(s.URL))
		for verb, call := range calls(e) {
			expectError(t, call(),
				fmt.Sprintf(`extender %q, %s: the answer has status %d %s, and redirects are not followed`, s.URL, verb,
					status, http.StatusText(status)))
		}
		e.Close()
		s.Close()
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("the target of the redirect got %d requests", n)
	}
}

// Decoded as nodes, an answer of 16 MiB with empty ones would allocate gigabytes.
func TestHugeAnswersTakeLittleMemory(t *testing.T) {
	const size, limit = 16 << 20, 200 << 20
	for _, test := range []struct {
		name, begin, repeated string
		nodes                 bool // whether the extender is sent nodes, not their names
	}{
		{"empty nodes", `{"Nodes": {"items": [`, `{},`, true},
		{"names", `{"NodeNames": [`, `"",`, false},
		{"one name", `{"NodeNames": ["`, `x`, false},
		{"reasons", `{"FailedNodes": {`, `"":"",`, false},
		{"reasons for one node", `{"FailedNodes": {`, `"a":"x",`, false},
		{"scores", `[`, `{},`, false},
		{"scores of one node", `[`, `{"Host":"a"},`, false},
		{"nodes with victims", `{"NodeNameToMetaVictims": {`, `"a":{},`, false},
		{"victims", `{"NodeNameToMetaVictims": {"a": {"Pods": [`, `{},`, false},
		{"one victim", `{"NodeNameToMetaVictims": {"a": {"Pods": [`, `{"UID":"a1-uid"},`, false},
		{"unknown fields", `{"x": [`, `{},`, false},
		{"deep unknown fields", `{"x": `, `[`, false},
		{"white space", ``, ` `, false},
	} {
		answer := test.begin + strings.Repeat(test.repeated, size/len(test.repeated))
		s := serve(t, answer)
		cfg := everything(s.URL)
		cfg.NodeCacheCapable = !test.nodes
		e := build(t, cfg)
		for verb, call := range calls(e) {
			if allocated := allocates(call); allocated > limit {
				t.Errorf("%s, %s: %d MiB were allocated", test.name, verb, allocated>>20)
			}
		}
		e.Close()
		s.Close()
	}
}

// allocates returns how much memory a call allocates in total, most of which is garbage at once.
func allocates(call func() error) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_ = call() // an error or none
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestASlowDripEndsWithTheTimeout(t *testing.T) {
	stopped := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		ticks := time.NewTicker(5 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
			case <-stopped:
				return
			}
			if _, err := io.WriteString(w, " "); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}))
	defer s.Close()
	defer close(stopped)
	cfg := everything(s.URL)
	cfg.Timeout = 100 * time.Millisecond
	e := build(t, cfg)
	defer e.Close()
	for verb, call := range calls(e) {
		expectError(t, call(), fmt.Sprintf(`extender %q, %s: no answer within 100ms`, s.URL, verb))
	}
}

// The errors of calls reach Events of pods. An extender has no say in their words.
func TestNothingThatAnExtenderSendsIsInAnError(t *testing.T) {
	const secret = "sesame"
	http200 := "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
	for name, answer := range map[string]string{
		"the status line":               "HTTP/1.1 500 sesame\r\nConnection: close\r\n\r\n",
		"an unknown status":             "HTTP/1.1 799 sesame\r\nConnection: close\r\n\r\nsesame",
		"the body of an error":          "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\nsesame",
		"a redirect":                    "HTTP/1.1 302 Found\r\nLocation: http://sesame/\r\nConnection: close\r\n\r\n",
		"another protocol":              "220 sesame ESMTP\r\n",
		"an invalid header":             "HTTP/1.1 200 OK\r\nsesame\r\n\r\n",
		"an invalid length":             "HTTP/1.1 200 OK\r\nContent-Length: sesame\r\n\r\n",
		"a number in place of a string": http200 + `{"Error": 5353, "x": "sesame"}`,
		"text":                          http200 + `sesame`,
		"a string":                      http200 + `"sesame"`,
		"an error":                      http200 + `{"Error": "sesame"}`,
		"a node": http200 + `{"NodeNames": ["sesame"], "Nodes": {"items": [{"metadata": ` +
			`{"name": "sesame"}}]}, "NodeNameToMetaVictims": {"sesame": {}}}`,
		"a victim":                  http200 + `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "sesame"}]}}}`,
		"a field of the wrong type": http200 + `{"Nodes": {"items": [{"metadata": {"name": {"sesame": 5353}}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for {
					connection, err := listener.Accept()
					if err != nil {
						return
					}
					if request, err := http.ReadRequest(bufio.NewReader(connection)); err == nil {
						_, _ = io.Copy(io.Discard, request.Body)
						_, _ = io.WriteString(connection, answer)
					}
					_ = connection.Close() // the test is about what came before
				}
			}()
			cfg := everything("http://" + listener.Addr().String())
			cfg.NodeCacheCapable = true
			e := build(t, cfg)
			for verb, call := range calls(e) {
				if err := call(); err != nil &&
					(strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "5353")) {
					t.Errorf("%s: %v", verb, err)
				}
			}
			e.Close()
			listener.Close()
			<-ended
		})
	}
}

func TestVictimsMustHaveALowerPriority(t *testing.T) {
	lister, nodes := cluster()
	onA := nodes[0].GetPods()
	for _, test := range []struct {
		name     string
		priority int32
		offered  []*corev1.Pod
		err      string
	}{
		{"a pod of a lower priority", 9, []*corev1.Pod{onA[0].GetPod(), onA[1].GetPod()}, ""},
		{"a pod of a lower priority on the node that was not offered, as in kube-scheduler", 9,
			[]*corev1.Pod{onA[1].GetPod()}, ""},
		{"a pod of the same priority", 10, []*corev1.Pod{onA[0].GetPod()},
			`the answer has a victim on node "a" that does not have a lower priority than the pod`},
		{"a pod of a higher priority", 2000001000, nil,
			`the answer has a victim on node "a" that does not have a lower priority than the pod`},
	} {
		t.Run(test.name, func(t *testing.T) {
			onA[0].GetPod().Spec.Priority = ptr.To(test.priority)
			s := serve(t, `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "a1-uid"}, {"UID": "a1-uid"}]}}}`)
			asked := candidates(nodes)
			asked["a"].Pods = test.offered
			victims, err := build(t, everything(s.URL)).ProcessPreemption(preemptor(), asked, lister)
			if test.err != "" {
				expectError(t, err, test.err)
				if len(victims) > 0 {
					t.Errorf("there are victims: %s", victimNames(victims))
				}
			} else if err != nil || victimNames(victims) != "a:a1(0)" {
				t.Errorf("got %s, %v", victimNames(victims), err)
			}
		})
	}
}

func TestAFailingExtenderIsNoLongerCalled(t *testing.T) {
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		http.Error(w, "out of order", http.StatusInternalServerError)
	}))
	defer s.Close()
	e := build(t, everything(s.URL))
	defer e.Close()
	var err error
	filter := calls(e)["filter"]
	for range 10 { // all in less than the pause after which it is tried again
		err = filter()
	}
	expectError(t, err, fmt.Sprintf("extender %q, filter: not called, since its last calls failed; livesched tries "+
		"it again from time to time", s.URL))
	if n := requests.Load(); n != 5 {
		t.Errorf("there were %d requests", n)
	}
	expectError(t, calls(e)["bind"](), "the answer has status 500") // another verb may work
}
