// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/internal/scheduler/plugins/gpufragmentation"
	"github.com/livesched/livesched/test/sidebyside"
)

func TestTheGeneratedTraceHasThePublishedNumbers(t *testing.T) {
	generated := generate()
	if n, gpus := len(generated.machines), generated.milliGPUs()/whole; n != 1213 || gpus != 6212 {
		t.Errorf("%d nodes with %d GPUs", n, gpus)
	}
	models := map[string]int64{}
	for _, m := range generated.machines {
		models[m.model] += m.gpus
	}
	want := map[string]int64{"T4": 842, "G2": 4392, "G3": 312, "P100": 265, "V100M32": 204, "V100M16": 195, "A10": 2}
	if !reflect.DeepEqual(models, want) {
		t.Errorf("the GPUs are %v, want %v", models, want)
	}
	kinds := map[string]int{}
	for _, j := range generated.jobs {
		switch {
		case j.gpus == 0:
			kinds["none"]++
		case j.milliGPU < whole:
			kinds["a share"]++
		case j.gpus == 1:
			kinds["one"]++
		default:
			kinds["several"]++
		}
	}
	published := map[string]int{"none": 1088, "a share": 3078, "one": 3911, "several": 75}
	if !reflect.DeepEqual(kinds, published) {
		t.Errorf("the pods are %v, want %v", kinds, published)
	}
}

func TestPodsArriveUntilTheyRequestAShare(t *testing.T) {
	from := &trace{machines: []machine{{gpus: 4}}, jobs: []job{
		{milliCPU: 1, gpus: 1, milliGPU: 500}, {milliCPU: 2, gpus: 2, milliGPU: whole}, {milliCPU: 3}}}
	sum := func(jobs []job) (milli int64) {
		for _, j := range jobs {
			milli += j.milliGPUs()
		}
		return milli
	}
	for seed := range uint64(20) {
		jobs := from.arrivals(seed, 2)
		if last := sum(jobs[:len(jobs)-1]); last >= 8*whole || sum(jobs) < 8*whole {
			t.Fatalf("seed %d: %v", seed, jobs)
		}
		seen := map[job]bool{}
		for _, j := range jobs[:len(from.jobs)] {
			seen[j] = true
		}
		if len(seen) != len(from.jobs) || !reflect.DeepEqual(jobs, from.arrivals(seed, 2)) {
			t.Fatalf("seed %d: %v", seed, jobs)
		}
	}
	if jobs := from.arrivals(1, 0.1); len(jobs) > len(from.jobs) || sum(jobs) < 400 {
		t.Errorf("a tenth of the GPUs is requested by %v", jobs)
	}
}

const (
	someNodes = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,32000,262144,1,T4\n"
	somePods  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1000,1024,1,470,\np1,1000,1024,1,470,\n" +
		"p2,2000,1024,2,1000,P100|T4\np3,500,1024,0,0,\n"
)

// files writes two files, the second one compressed, and returns their names.
func files(t *testing.T, nodes, pods string) (nodeFile, podFile string) {
	t.Helper()
	dir := t.TempDir()
	nodeFile, podFile = filepath.Join(dir, "nodes.csv"), filepath.Join(dir, "pods.csv.gz")
	packed := &strings.Builder{}
	writer := gzip.NewWriter(packed)
	if _, err := writer.Write([]byte(pods)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{nodeFile: nodes, podFile: packed.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return nodeFile, podFile
}

func TestATraceIsReadFromFiles(t *testing.T) {
	got, err := readTrace(files(t, someNodes, somePods))
	want := &trace{
		machines: []machine{{64000, 262144, 2, "P100"}, {32000, 262144, 1, "T4"}},
		jobs: []job{{1000, 1024, 1, 470, ""}, {1000, 1024, 1, 470, ""}, {2000, 1024, 2, whole, "P100|T4"},
			{500, 1024, 0, 0, ""}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v (%v), want %v", got, err, want)
	}
	args := argsFor(got)
	if want := []gpufragmentation.TypicalPod{
		{MilliCPU: 1000, GPUs: 1, MilliGPU: 470, Weight: 2},
		{MilliCPU: 500, Weight: 1},
		{MilliCPU: 2000, GPUs: 2, MilliGPU: whole, Models: []string{"P100", "T4"}, Weight: 1},
	}; !reflect.DeepEqual(args.TypicalPods, want) {
		t.Errorf("the typical pods are %v, want %v", args.TypicalPods, want)
	}
	for name, test := range map[string]struct{ nodes, pods, want string }{
		"no number": {strings.Replace(someNodes, ",2,", ",two,", 1), somePods, "row 2"},
		"no column": {someNodes, strings.Replace(somePods, "gpu_milli", "gpu", 1), "gpu_milli"},
		"empty":     {"", somePods, "no rows"},
		"no GPUs":   {strings.SplitAfter(someNodes, "\n")[0], somePods, "no GPUs"},
	} {
		_, err := readTrace(files(t, test.nodes, test.pods))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// small is a trace of few machines, whose pods also differ in the models that they can use.
func small() *trace {
	t := &trace{}
	for i := range 24 {
		t.machines = append(t.machines, []machine{{32000, 131072, 2, "T4"}, {64000, 262144, 8, "G2"}}[i%2])
	}
	for _, group := range jobs {
		for i := range 1 + group.pods/100 {
			j := group.job
			if j.models = []string{"", "", "G2", "T4|G2"}[i%4]; j.gpus == 0 {
				j.models = ""
			}
			t.jobs = append(t.jobs, j)
		}
	}
	return t
}

// TestBothPathsDecideAlike lets the fast path and the scalar path decide about the same pods.
func TestBothPathsDecideAlike(t *testing.T) {
	for _, policy := range []string{Fragmentation, Packed} {
		from := small()
		jobs := from.arrivals(1, 1.2)
		var both []*cluster
		for _, path := range []sidebyside.Path{sidebyside.FastPath, sidebyside.ScalarPath} {
			c, err := newCluster(t.Context(), policy, path, 1, from, jobs)
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			both = append(both, c)
		}
		fast, scalar := both[0], both[1]
		var partial, unfit int
		for i := range jobs {
			// Each third decision is one about all nodes.
			fast.EveryNode = i%3 == 0
			got, want := fast.Decide(podOf(i, &jobs[i])), scalar.Decide(podOf(i, &jobs[i]))
			if got.Err != nil || want.Err != nil {
				if (got.Err == nil) != (want.Err == nil) {
					t.Fatalf("%s, pod %d: %v on the fast path, %v on the scalar path", policy, i, got.Err, want.Err)
				}
				unfit++
				continue
			}
			if fast.Result.Partial {
				partial++
			} else if fast.Result.FeasibleNodes != scalar.Result.FeasibleNodes {
				t.Fatalf("%s, pod %d fits %d nodes, %d on the scalar path", policy, i, fast.Result.FeasibleNodes,
					scalar.Result.FeasibleNodes)
			}
			if fast.Result.Total != scalar.Result.Total && scalar.Result.FeasibleNodes > 1 {
				t.Fatalf("%s, pod %d: the best total is %d on %s, on the scalar path %d on %s", policy, i,
					fast.Result.Total, got.Host, scalar.Result.Total, want.Host)
			}
			// Both go where the fast path has chosen, of nodes with the same total. The scalar path
			// knows all nodes.
			if err := fast.bind(podOf(i, &jobs[i]), got); err != nil {
				t.Fatalf("%s, pod %d: %v", policy, i, err)
			}
			want.Host = got.Host
			if err := scalar.bind(podOf(i, &jobs[i]), want); err != nil {
				t.Fatalf("%s, pod %d: %v", policy, i, err)
			}
		}
		if partial < len(jobs)/4 || unfit == 0 {
			t.Errorf("%s: %d of %d decisions asked only some nodes, and %d pods fit nowhere", policy, partial,
				len(jobs), unfit)
		}
	}
}

// TestAGapIsFilledWherePodsNeedIt: a pod that needs half a GPU goes to the GPU of which half is
// taken, and not to one from which it would keep pods that need it as a whole.
func TestAGapIsFilledWherePodsNeedIt(t *testing.T) {
	half, one := job{1000, 1024, 1, 500, ""}, job{1000, 1024, 1, whole, ""}
	from := &trace{machines: []machine{{16000, 65536, 1, "T4"}, {16000, 65536, 2, "T4"}}, jobs: []job{half, one, one}}
	jobs := []job{half, half, half, half}
	c, err := newCluster(t.Context(), Fragmentation, sidebyside.FastPath, 1, from, jobs)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for i := range jobs {
		if placed, err := c.place(i, &jobs[i]); err != nil || !placed {
			t.Fatalf("pod %d: %v, %v", i, placed, err)
		}
	}
	gpus := map[string]int{}
	for i := range jobs {
		claim, err := c.Devices.ResourceClaims().Get("default", podName(i))
		if err != nil {
			t.Fatal(err)
		}
		result := claim.Status.Allocation.Devices.Results[0]
		gpus[result.Pool+"/"+result.Device]++
		if used := result.ConsumedCapacity[capacity]; used.Value() != 500 ||
			!reflect.DeepEqual(claim.Spec.Devices.Requests[0].Exactly.AllocationMode,
				resourcev1.DeviceAllocationModeExactCount) {
			t.Errorf("pod %d has %v of a GPU", i, used)
		}
	}
	if len(gpus) != 2 {
		t.Errorf("four halves are on %v", gpus)
	}
}

func TestEveryPolicyIsReplayed(t *testing.T) {
	nodes, pods := files(t, someNodes, somePods)
	o := options{nodes: nodes, pods: pods, policies: Policies, seeds: 2, first: 42, arrivals: 150}
	if err := o.validate(); err != nil {
		t.Fatal(err)
	}
	r, err := report.New("fragmentation", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != len(Policies) {
		t.Fatalf("%d rows, want %d", len(r.Rows), len(Policies))
	}
	for _, row := range r.Rows {
		for _, value := range row.Values[inTheEnd] {
			if value <= 0 || value > 100 || len(row.Values[inTheEnd]) != 2 {
				t.Errorf("%s: %v", row.Labels["policy"], row.Values)
			}
		}
	}
	tables := Tables(r)
	if len(tables) != 1 || len(tables[0].Rows) != len(Policies) || len(tables[0].Rows[0]) != len(tables[0].Header) {
		t.Errorf("tables %v", tables)
	}
}

func TestATableHasMeansBesideThePublishedOnes(t *testing.T) {
	r, err := report.New("fragmentation", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []float64{94, 95.5} {
		if err := r.Add(map[string]string{"policy": Fragmentation, "arrivals": "130"}, map[string]float64{
			atCapacity: 93, inTheEnd: end, unplaced: 1500, perPod: 4321}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{Fragmentation, "93.00", "94.75", "94.00", "95.50", "2", "1,500", "4,321", "FGD", "95.23", "95.39"}
	if got := Tables(r)[0].Rows[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := percentage(mean(nil)); got != "" || !math.IsNaN(mean(nil)) {
		t.Errorf("the mean of nothing is %q", got)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--policies", "Best"}, {"--seeds", "0"}, {"--first-seed", "0"}, {"--arrivals", "0"}, {"--nodes", "nodes.csv"},
		{"--pods", "pods.csv"}, {"--nodes", "nowhere.csv", "--pods", "nowhere.csv"}, {"extra"},
	} {
		cmd := Command()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append(args, "--out", ""))
		if err := cmd.Execute(); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
