// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/extender"
)

// calls are all verbs.
func calls(e *extender.Extender) map[string]func() error {
	lister, nodes := cluster()
	return map[string]func() error{
		"filter":     func() error { _, _, _, err := e.Filter(pod("p"), nodes); return err },
		"prioritize": func() error { _, _, err := e.Prioritize(pod("p"), nodes); return err },
		"preempt": func() error {
			_, err := e.ProcessPreemption(preemptor(), candidates(nodes), lister)
			return err
		},
		"bind": func() error { return e.Bind(&corev1.Binding{}) },
	}
}

func TestFailedCallIsAnErrorWithExtenderAndVerb(t *testing.T) {
	stopped := make(chan struct{})
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"another status", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"Error": "x"}`, http.StatusInternalServerError)
		}, "the answer has status 500 Internal Server Error"},
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			"the answer has status 204 No Content"},
		{"a redirection to nowhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}, "the answer has status 307 Temporary Redirect, and redirects are not followed"},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
			"the answer is not valid"},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"Nodes": [`) },
			""},
		{"the wrong type", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"text"`) },
			"the answer is not valid"},
		{"an empty answer", func(http.ResponseWriter, *http.Request) {}, "the answer is empty"},
		{"too slow", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // otherwise, the end of the connection would go unnoticed
			select {
			case <-r.Context().Done():
			case <-stopped:
			}
		}, "no answer within 50ms"},
		{"too slow in the middle", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-stopped:
			}
		}, "no answer within 50ms"},
		{"a connection that breaks", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		{"an answer without end", func(w http.ResponseWriter, _ *http.Request) {
			spaces := strings.Repeat(" ", 1<<20)
			for {
				if _, err := io.WriteString(w, spaces); err != nil {
					return
				}
			}
		}, "the answer is too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := httptest.NewServer(test.answer)
			defer s.Close()
			cfg := everything(s.URL)
			if strings.HasPrefix(test.name, "too slow") {
				cfg.Timeout = 50 * time.Millisecond
			}
			e := build(t, cfg)
			for verb, call := range calls(e) {
				expectError(t, call(), fmt.Sprintf("extender %q, %s: ", s.URL, verb), test.want)
			}
			e.Close()
		})
	}
	close(stopped)

	t.Run("connection refused", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
		url := "http://" + listener.Addr().String()
		for verb, call := range calls(build(t, everything(url))) {
			expectError(t, call(), fmt.Sprintf("extender %q, %s: ", url, verb), "connection refused")
		}
	})
}

func TestConnectionsAreKeptUntilTheExtenderIsClosed(t *testing.T) {
	var opened, open atomic.Int32
	closed := make(chan struct{}, 100)
	status := http.StatusOK
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{}`+strings.Repeat("\n", 10_000))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
			closed <- struct{}{}
		}
	}
	s.Start()
	defer s.Close()
	e := build(t, everything(s.URL))
	for range 10 {
		for _, status = range []int{http.StatusOK, http.StatusInternalServerError, http.StatusOK} {
			if err := e.Bind(&corev1.Binding{}); (err == nil) != (status == http.StatusOK) {
				t.Fatalf("status %d: %v", status, err)
			}
		}
	}
	// On a busy machine, net/http may close a connection before it has noted that a request was
	// sent.
	n := opened.Load()
	if n > 4 {
		t.Errorf("30 calls took %d connections", n)
	}
	e.Close()
	for range n {
		<-closed
	}

	// A plugin may keep objects of an instance that is closed.
	if err := e.Bind(&corev1.Binding{}); err != nil {
		t.Fatal(err)
	}
	<-closed
	if n := open.Load(); n != 0 {
		t.Errorf("%d connections are left open", n)
	}
}

func TestAnAnswerMayBeAsLongAsTheNodes(t *testing.T) {
	_, nodes := cluster()
	big := nodes[0].Node().DeepCopy()
	big.Annotations = map[string]string{"example.com/big": strings.Repeat("x", 17<<20)}
	nodes[0].SetNode(big)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body) // as a response, the request body leaves all nodes
	}))
	defer s.Close()
	e := build(t, everything(s.URL))
	defer e.Close()
	var passed []fwk.NodeInfo
	passed, _, _, err := e.Filter(pod("p"), nodes)
	if err != nil || nodeNames(passed) != "a b c" {
		t.Errorf("got %v, %v", passed, err)
	}
}
