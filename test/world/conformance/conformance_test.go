// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance compares the API server in memory with a real kube-apiserver.
package conformance

import (
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/test/controlplane"
	"github.com/livesched/livesched/test/controlplane/binaries"
	"github.com/livesched/livesched/test/world/apiserver"
	"github.com/livesched/livesched/test/world/etcd"
)

var (
	operations = flag.Int("conformance.operations", 300, "requests for each seed")
	firstSeed  = flag.Uint64("conformance.seed", 1, "the first seed")
	seeds      = flag.Uint64("conformance.seeds", 1, "how many seeds, each with a new control plane")
)

// maxMismatches is after how many mismatches a run ends: the servers have different objects then.
const maxMismatches = 8

const crds = "../../../config/crd/bases"

// admission are the admission plugins that a kube-apiserver has by default, without
// NamespaceLifecycle: no namespace "default" would be made. It refuses objects in namespaces that
// do not exist or end, which the requests of this test do not create.
const admission = "CertificateApproval,CertificateSigning,CertificateSubjectRestriction,ClusterTrustBundleAttest," +
	"DefaultIngressClass,DefaultStorageClass,DefaultTolerationSeconds,LimitRanger,MutatingAdmissionPolicy," +
	"MutatingAdmissionWebhook,NodeDeclaredFeatureValidator,PersistentVolumeClaimResize," +
	"PodResizeValidator,PodSecurity,PodTopologyLabels,Priority,ResourceQuota,RuntimeClass,ServiceAccount," +
	"StorageObjectInUseProtection,TaintNodesByCondition,ValidatingAdmissionPolicy,ValidatingAdmissionWebhook"

// TestConformance sends the same random requests to both servers, and compares the answers and the
// events of watches.
func TestConformance(t *testing.T) {
	if os.Getenv(binaries.AssetsEnv) == "" {
		t.Skipf("%s is not set: it names a directory with etcd and kube-apiserver", binaries.AssetsEnv)
	}
	log.SetLogger(klog.Background())
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] // the other one sleeps
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			p := start(t)
			p.play(newDrawer(seed), *operations)
		})
	}
}

// pair are the two servers.
type pair struct {
	t            *testing.T
	memory, real *side
	mismatches   int
	watches      []*watching
}

func start(t *testing.T) *pair {
	t.Helper()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{
		APIServerFlags: []string{"--disable-admission-plugins=" + admission}, Processors: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := cp.InstallCRDs(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	config := cp.Config()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.New(t.Context(), etcd.New(), definitions(t)...)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, memory: newSide("http://memory", &apiserver.Transport{Handler: server}),
		real: newSide(config.Host, transport)}
	p.prepare()
	return p
}

// definitions returns the custom resources.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(crds + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			t.Fatal(err)
		}
		all = append(all, crd)
	}
	return all
}

// prepare gives both servers the objects that a kube-apiserver makes by itself, and the test's
// namespaces.
func (p *pair) prepare() {
	for _, path := range []string{"/api/v1/namespaces", "/apis/scheduling.k8s.io/v1/priorityclasses"} {
		a := p.real.do(p.t, &request{method: http.MethodGet, path: path, accept: jsonType})
		list, _ := a.Object.(map[string]any)
		items, _ := list["items"].([]any)
		for _, item := range items {
			o, _ := item.(map[string]any)
			metadata, _ := o["metadata"].(map[string]any)
			delete(metadata, "resourceVersion")
			delete(metadata, "creationTimestamp")
			delete(metadata, "uid")
			text, err := yaml.Marshal(o)
			if err != nil {
				p.t.Fatal(err)
			}
			body, err := yaml.YAMLToJSON(text)
			if err != nil {
				p.t.Fatal(err)
			}
			p.memory.do(p.t, &request{method: http.MethodPost, path: path, body: string(body),
				contentType: jsonType, accept: jsonType})
		}
	}
	p.memory.marks = p.memory.marks[:1]
	for _, r := range catalogue { // starts the real server's caches of custom resources
		p.settle(&request{method: http.MethodGet, path: r.collection(""), query: url.Values{"resourceVersion": {"0"}}})
	}
	for _, name := range namespaces {
		p.compare(-1, &request{method: http.MethodPost, path: "/api/v1/namespaces",
			contentType: jsonType, accept: jsonType,
			body: fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)})
	}
}

// play sends requests, and compares what the servers answer.
func (p *pair) play(d *drawer, steps int) {
	codes := map[int]int{}
	for step := range steps {
		if d.oneIn(15) {
			p.watch(d, step)
			continue
		}
		req, o := d.next()
		code := p.compare(step, req)
		codes[code]++
		if code == http.StatusCreated && req.path == o.collection(o.namespace) {
			d.made = append(d.made, o)
		}
	}
	p.t.Log("answers by code:", codes)
	p.compareWatches()
}

// compare sends a request to both servers. It returns the code.
func (p *pair) compare(step int, req *request) int {
	p.t.Helper()
	p.settle(req)
	want, got := p.real.do(p.t, req), p.memory.do(p.t, req)
	if diff := cmp.Diff(want, got); diff != "" {
		p.mismatch("step %d: %v\n-real +memory\n%s\nreal: %v\nmemory: %v", step, req, diff, want, got)
	}
	return want.Code
}

// settle waits until the real server's cache has all changes, before a request that accepts any
// state of the cache.
func (p *pair) settle(req *request) {
	p.t.Helper()
	if req.method == http.MethodGet && req.query.Get("resourceVersion") != "" || req.query.Has("watch") {
		none := url.Values{"labelSelector": {"none"}}
		p.real.start(p.t, &request{method: http.MethodGet, path: req.path, query: none}).Body.Close()
	}
}

func (p *pair) mismatch(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf(format, args...)
	if p.mismatches++; p.mismatches == maxMismatches {
		p.t.Fatal("too many mismatches")
	}
}

// watch starts a watch on both servers.
func (p *pair) watch(d *drawer, step int) {
	p.t.Helper()
	req, o := d.watch()
	p.settle(req)
	w := &watching{request: req, target: o}
	want, wantAnswer := p.real.follow(p.t, req)
	got, gotAnswer := p.memory.follow(p.t, req)
	if diff := cmp.Diff(wantAnswer, gotAnswer); diff != "" {
		p.mismatch("step %d: %v\n-real +memory\n%s", step, req, diff)
	}
	if want != nil && got != nil {
		w.events = [2]<-chan event{want, got}
		p.watches = append(p.watches, w)
	}
}

// compareWatches ends each watch with an object of its own, and compares the events.
func (p *pair) compareWatches() {
	p.t.Helper()
	total := 0
	for i, w := range p.watches {
		req, name := w.ending(i)
		if req == nil {
			continue
		}
		if p.compare(-2, req) != http.StatusCreated {
			p.t.Logf("the last object of %v is refused: %v", w.request, p.real.do(p.t, req))
			continue
		}
		want, got := collect(w.events[0], name), collect(w.events[1], name)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(event{})); diff != "" {
			from := w.query.Get("resourceVersion")
			p.mismatch("watch %d: %v, from %q and %q\n-real +memory\n%s", i, w.request, p.real.fill(from),
				p.memory.fill(from), diff)
		}
		if n := len(want); n > 0 && want[n-1].Type == "TIMEOUT" {
			p.mismatch("watch %d: %v\nneither server delivers the last object, %v", i, w.request, req)
		}
		total += len(want)
	}
	p.t.Log(len(p.watches), "watches with", total, "events")
}
