// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package testextender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server serves the verbs of an extender.
type server struct {
	client client.Client // binds pods
	http   *http.Server
	done   chan struct{} // closed when the server has ended

	mu     sync.Mutex // guards the fields below
	script Script
	calls  []Call
}

func (s *server) perform(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// take returns the calls since the last time.
func (s *server) take() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func writeJSON(w http.ResponseWriter, value any) {
	_ = json.NewEncoder(w).Encode(value) // fails if the caller is gone
}

// ServeHTTP serves a verb.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	call := Call{Verb: path.Base(r.URL.Path)}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		call.Client = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	answer, err := s.prepare(&call, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	script := s.script
	s.calls = append(s.calls, call)
	s.mu.Unlock()

	switch script.Faults[call.Verb] {
	case Slow:
		<-r.Context().Done()
		return
	case Broken:
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	case Garbage:
		_, _ = io.WriteString(w, "<html>")
		return
	case Gone, Dead:
		_, _ = io.WriteString(w, "{")
		w.(http.Flusher).Flush()
		if script.Faults[call.Verb] == Dead {
			_ = s.http.Close()
		}
		panic(http.ErrAbortHandler)
	case Unsure:
		answer(&script)
		<-r.Context().Done()
		return
	}
	writeJSON(w, answer(&script))
}

// prepare decodes the body of a call and returns the function that creates the response.
func (s *server) prepare(call *Call, body []byte) (answer func(*Script) any, err error) {
	switch call.Verb {
	case Filter, Prioritize:
		var args extenderv1.ExtenderArgs
		if err := json.Unmarshal(body, &args); err != nil {
			return nil, err
		}
		if args.Pod == nil || (args.Nodes == nil) == (args.NodeNames == nil) {
			return nil, errors.New("not a pod and either nodes or names")
		}
		call.Pod = args.Pod.Name
		if call.Whole = args.Nodes != nil; call.Whole {
			for i := range args.Nodes.Items {
				call.Nodes = append(call.Nodes, args.Nodes.Items[i].Name)
			}
		} else {
			call.Nodes = *args.NodeNames
		}
		if call.Verb == Prioritize {
			return func(script *Script) any { return prioritize(script, call.Nodes) }, nil
		}
		return func(script *Script) any { return filter(script, &args, call.Nodes) }, nil
	case Preempt:
		var args extenderv1.ExtenderPreemptionArgs
		if err := json.Unmarshal(body, &args); err != nil {
			return nil, err
		}
		if args.Pod == nil || (args.NodeNameToVictims == nil) == (args.NodeNameToMetaVictims == nil) {
			return nil, errors.New("not a pod and either victims or their names")
		}
		call.Pod, call.Whole, call.Victims = args.Pod.Name, args.NodeNameToVictims != nil, map[string][]string{}
		for name, victims := range args.NodeNameToVictims {
			call.Victims[name] = uids(victims.Pods)
		}
		for name, victims := range args.NodeNameToMetaVictims {
			for _, pod := range victims.Pods {
				call.Victims[name] = append(call.Victims[name], pod.UID)
			}
		}
		return func(script *Script) any { return preempt(script, call.Victims) }, nil
	case Bind:
		var args extenderv1.ExtenderBindingArgs
		if err := json.Unmarshal(body, &args); err != nil {
			return nil, err
		}
		call.Pod, call.Nodes = args.PodName, []string{args.Node}
		return func(script *Script) any { return s.bind(script, &args) }, nil
	}
	return nil, fmt.Errorf("no such verb: %q", call.Verb)
}

func filter(script *Script, args *extenderv1.ExtenderArgs, nodes []string) *extenderv1.ExtenderFilterResult {
	result := &extenderv1.ExtenderFilterResult{FailedNodes: script.Refused, FailedAndUnresolvableNodes: script.Hopeless,
		Error: script.Errors[Filter]}
	refused := func(name string) bool {
		_, refused := script.Refused[name]
		_, hopeless := script.Hopeless[name]
		return refused || hopeless
	}
	if args.Nodes != nil {
		args.Nodes.Items = slices.DeleteFunc(args.Nodes.Items,
			func(node corev1.Node) bool { return refused(node.Name) })
		result.Nodes = args.Nodes
		return result
	}
	left := slices.DeleteFunc(slices.Clone(nodes), refused)
	result.NodeNames = &left
	return result
}

func prioritize(script *Script, nodes []string) extenderv1.HostPriorityList {
	scores := extenderv1.HostPriorityList{}
	for _, name := range nodes {
		scores = append(scores, extenderv1.HostPriority{Host: name, Score: script.Scores[name]})
	}
	return scores
}

func preempt(script *Script, victims map[string][]string) *extenderv1.ExtenderPreemptionResult {
	result := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	for name, uids := range victims {
		if slices.Contains(script.Spared, name) {
			continue
		}
		left := &extenderv1.MetaVictims{}
		for _, uid := range uids {
			if !slices.Contains(script.SparedPods, uid) {
				left.Pods = append(left.Pods, &extenderv1.MetaPod{UID: uid})
			}
		}
		result.NodeNameToMetaVictims[name] = left
	}
	return result
}

func (s *server) bind(script *Script, args *extenderv1.ExtenderBindingArgs) *extenderv1.ExtenderBindingResult {
	if message := script.Errors[Bind]; message != "" {
		return &extenderv1.ExtenderBindingResult{Error: message}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName,
		UID: args.PodUID}}
	binding := &corev1.Binding{ObjectMeta: pod.ObjectMeta,
		Target: corev1.ObjectReference{Kind: "Node", Name: args.Node}}
	if err := s.client.SubResource("binding").Create(context.Background(), pod, binding); err != nil {
		return &extenderv1.ExtenderBindingResult{Error: err.Error()}
	}
	return &extenderv1.ExtenderBindingResult{}
}
