// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/test/controlplane/process"
	"github.com/livesched/livesched/test/workload"
)

// asked is livesched, which is asked two questions at a time, in every other window. explained is
// asked to explain only, as a leader is where there is a second replica. viewed has ten viewers of
// its dashboard.
const (
	asked     = livesched + "-asked"
	explained = livesched + "-explained"
	viewed    = livesched + "-viewed"
)

// askedPods is the number of pods that each simulation decides.
const askedPods = 300

// prepareAsked runs livesched, and asks it questions over HTTPS: see windows. It is the only
// replica, so it leads.
func prepareAsked(ask asks) contender {
	return func(ctx context.Context, b *bench) (launch, error) { return launchAsked(ctx, b, ask) }
}

func launchAsked(ctx context.Context, b *bench, ask asks) (launch, error) {
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	// The last of two flags of one name counts.
	start, err := prepareLivesched(func(int) int32 { return 0 }, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), "--ui")(ctx, b)
	if err != nil {
		return nil, err
	}
	q, err := newQuestions(b, fmt.Sprintf("https://127.0.0.1:%d", port), ask)
	if err != nil {
		return nil, err
	}
	return func(fail context.CancelCauseFunc) (running, error) {
		r, err := start(fail)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		q.cancel, q.done = cancel, make(chan struct{})
		go q.run(ctx, r)
		return questioned{r, q}, nil
	}, nil
}

// apis is the prefix of the paths of what livesched answers.
var apis = "/apis/" + v1alpha1.GroupVersion.String() + "/"

// asks asks questions once.
type asks func(context.Context, *questions)

// questions asks livesched questions.
type questions struct {
	url        string
	client     *http.Client
	pods       *cluster.Pods
	simulation []byte
	ask        asks
	perSecond  int

	cancel context.CancelFunc
	done   chan struct{}
	// The fields below belong to the goroutine that asks, until done is closed. answers counts the
	// answers by question, and err is the latest error. views counts the views of the dashboard,
	// rows are the links to its rows, and next is the one to follow next. pages has how long the
	// whole page took, and largest its largest size in bytes.
	answers map[string]int
	windows windows
	err     error
	views   int
	rows    []string
	next    int
	pages   []time.Duration
	largest int
}

func newQuestions(b *bench, url string, ask asks) (*questions, error) {
	cfg := rest.CopyConfig(b.ControlPlane.Config())
	// it signs its own
	cfg.TLSClientConfig.CAData, cfg.TLSClientConfig.CAFile, cfg.TLSClientConfig.Insecure = nil, "", true
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	binpack := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: cluster.SchedulerName}}
	if err := json.Unmarshal([]byte(binpackSpec), &binpack.Spec); err != nil {
		return nil, err
	}
	text, err := json.Marshal(v1alpha1.Simulation{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Simulation"},
		Spec: v1alpha1.SimulationSpec{
			Profiles: []v1alpha1.SchedulerProfile{binpack},
			Pods:     v1alpha1.PodSelection{Type: v1alpha1.PodsAll, Limit: askedPods},
		},
	})
	return &questions{url: url, client: client, pods: b.Pods, simulation: text, ask: ask,
		perSecond: b.options.questions, answers: map[string]int{}}, err
}

const binpackSpec = `{"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 1}]}},
  "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]}`

// run asks in every other window until ctx ends, from the first bound pod. A question may fail:
// pods come and go.
func (q *questions) run(ctx context.Context, r running) {
	defer close(q.done)
	err := q.pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Bound > 0 })
	for asks := rand.IntN(2) == 0; err == nil; asks = !asks {
		err = q.window(ctx, r, asks)
	}
	if ctx.Err() == nil {
		q.err = err
	}
}

// window asks for the length of a window, or is silent, and adds it to the windows. The error is
// that of the context if the window is not whole.
func (q *questions) window(ctx context.Context, r running, asks bool) error {
	before, err := q.sample(r)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(time.Second / time.Duration(q.perSecond))
	defer ticker.Stop()
	for range windowSeconds * q.perSecond {
		if asks {
			q.ask(ctx, q)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	after, err := q.sample(r)
	if err == nil {
		q.windows.add(asks, before, after)
	}
	return err
}

// explain asks livesched to explain a pod that waits.
func explain(ctx context.Context, q *questions) {
	if name := q.pods.OneWaiting(); name != "" {
		q.send(ctx, "explanations", http.MethodGet, apis+"namespaces/"+workload.Namespace+"/podexplanations/"+name, nil)
	}
}

// explainAndSimulate asks livesched to simulate another profile, too.
func explainAndSimulate(ctx context.Context, q *questions) {
	explain(ctx, q)
	q.send(ctx, "simulations", http.MethodPost, apis+"simulations", q.simulation)
}

func (q *questions) sample(r running) (sample, error) {
	used, err := r.usage()
	return sample{time: time.Now(), pods: q.pods.BoundNow(), usage: used}, err
}

// send sends a question, counts the answer, and returns it, nil if there is none.
func (q *questions) send(ctx context.Context, question, method, path string, body []byte) []byte {
	text, err := q.get(ctx, method, path, body)
	q.answers[question] += 0 // it was asked
	if err != nil {
		q.err = err
		return nil
	}
	q.answers[question]++
	return text
}

func (q *questions) get(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, q.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := q.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return text, nil
}

// questioned is a contender that is asked questions.
type questioned struct {
	running
	questions *questions
}

// figures returns what the questions have changed, and how long pages took. stop must have been
// called.
func (r questioned) figures() map[string]float64 {
	q := r.questions
	values := q.windows.values()
	if values != nil && len(q.pages) > 0 {
		slices.Sort(q.pages)
		values[firstPage], values[largestPage] = milliseconds(q.pages[len(q.pages)/2]), float64(q.largest)/1000
	}
	return values
}

// stop fails if livesched has not answered each of the questions.
func (r questioned) stop() error {
	q := r.questions
	q.cancel()
	<-q.done
	err := r.running.stop()
	for question, answers := range q.answers {
		if answers == 0 {
			err = errors.Join(err, fmt.Errorf("no %s: %w", question, q.err))
		}
	}
	if len(q.answers) == 0 {
		err = errors.Join(err, errors.New("nothing was asked"), q.err)
	}
	return err
}
