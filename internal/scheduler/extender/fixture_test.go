// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/extender"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// server is an extender that answers with one text and records the requests.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	answer string
	paths  []string
	bodies []string
}

// serve starts a server that answers every call with the text.
func serve(t testing.TB, answer string) *server {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "cannot read that", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = append(s.paths, r.URL.Path)
	s.bodies = append(s.bodies, string(body))
	_, _ = io.WriteString(w, s.answer)
}

func (s *server) setAnswer(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// sent returns the paths and bodies of the calls so far, and clears them.
func (s *server) sent() (paths, bodies []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	paths, bodies = s.paths, s.bodies
	s.paths, s.bodies = nil, nil
	return paths, bodies
}

// everything returns an extender with all verbs.
func everything(url string) resolve.Extender {
	return resolve.Extender{
		URLPrefix: url, FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt", BindVerb: "bind",
		Weight: 3, Timeout: time.Minute,
	}
}

// build returns an extender that is closed when the test ends.
func build(t testing.TB, cfg resolve.Extender) *extender.Extender {
	t.Helper()
	e, err := extender.New(&cfg, extender.Policy{Name: "default"}, extender.NewBreakers(nil), lease.NewTerm(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// preemptor is a pod that may preempt those of cluster.
func preemptor() *corev1.Pod {
	p := pod("p")
	p.Spec.Priority = ptr.To[int32](10)
	return p
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}}
}

// cluster returns the nodes a, b and c, with the pods a1, a2, b1, b2, c1 and c2 on them.
func cluster() (fwk.NodeInfoLister, []fwk.NodeInfo) {
	var pods []*corev1.Pod
	var nodes []*corev1.Node
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		for i := 1; i <= 2; i++ {
			p := pod(fmt.Sprintf("%s%d", name, i))
			p.Spec.NodeName = name
			pods = append(pods, p)
		}
	}
	lister := schedcache.NewSnapshot(pods, nodes).NodeInfos()
	infos, _ := lister.List()
	slices.SortFunc(infos, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	return lister, infos
}

// candidates returns the nodes of cluster with the pods on them as victims.
func candidates(infos []fwk.NodeInfo) map[string]*extenderv1.Victims {
	all := map[string]*extenderv1.Victims{}
	for i, node := range infos {
		victims := &extenderv1.Victims{NumPDBViolations: int64(i)}
		for _, info := range node.GetPods() {
			victims.Pods = append(victims.Pods, info.GetPod())
		}
		all[node.Node().Name] = victims
	}
	return all
}

func nodeNames(nodes []fwk.NodeInfo) string {
	var names []string
	for _, node := range nodes {
		names = append(names, node.Node().Name)
	}
	return strings.Join(names, " ")
}

// victimNames formats victims as "a:a1,a2(0)", sorted.
func victimNames(all map[string]*extenderv1.Victims) string {
	var nodes []string
	for name, victims := range all {
		if victims == nil {
			nodes = append(nodes, name+":none")
			continue
		}
		var pods []string
		for _, pod := range victims.Pods {
			pods = append(pods, pod.Name)
		}
		nodes = append(nodes, fmt.Sprintf("%s:%s(%d)", name, strings.Join(pods, ","), victims.NumPDBViolations))
	}
	slices.Sort(nodes)
	return strings.Join(nodes, " ")
}

func text(t testing.TB, value any) string {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func expectError(t *testing.T, err error, want ...string) {
	t.Helper()
	for _, words := range want {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("the error is %v, without %q", err, words)
		}
	}
}
