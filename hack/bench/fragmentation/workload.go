// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
)

// machine is a node with GPUs of one model.
type machine struct {
	milliCPU, memoryMiB int64
	gpus                int64
	model               string
}

// job is a pod. milliGPU is how much it needs of each of its GPUs, and models are those that it can
// use, separated by |; "" are all.
type job struct {
	milliCPU, memoryMiB int64
	gpus, milliGPU      int64
	models              string
}

func (j *job) milliGPUs() int64 { return j.gpus * j.milliGPU }

// trace is what is replayed.
type trace struct {
	machines []machine
	jobs     []job
}

// milliGPUs is the capacity of all machines.
func (t *trace) milliGPUs() (total int64) {
	for _, m := range t.machines {
		total += m.gpus * whole
	}
	return total
}

// whole is a GPU, in thousandths.
const whole = 1000

// arrivals returns the pods in the order in which they arrive: all pods of the trace, shuffled, and
// then pods drawn from it, until they request a share of the capacity.
func (t *trace) arrivals(seed uint64, share float64) []job {
	random := rand.New(rand.NewPCG(seed, 0))
	var all []job
	left := int64(share * float64(t.milliGPUs()))
	for _, i := range random.Perm(len(t.jobs)) {
		all = append(all, t.jobs[i])
	}
	for i := 0; left > 0; i++ {
		if i >= len(all) {
			all = append(all, t.jobs[random.IntN(len(t.jobs))])
		}
		left -= all[i].milliGPUs()
		if left <= 0 {
			all = all[:i+1]
		}
	}
	return all
}

// typical is a kind of pods with the number of those in the trace.
type typical struct {
	milliCPU, gpus, milliGPU int64
	models                   string
	pods                     int64
}

// popular returns the kinds of pods, the most frequent first, that are a share of all pods.
func (t *trace) popular(share float64) []typical {
	counts := map[typical]int64{}
	for _, j := range t.jobs {
		counts[typical{j.milliCPU, j.gpus, j.milliGPU, j.models, 0}]++
	}
	var all []typical
	for kind, n := range counts {
		kind.pods = n
		all = append(all, kind)
	}
	slices.SortFunc(all, func(a, b typical) int {
		return cmp.Or(cmp.Compare(b.pods, a.pods), cmp.Compare(a.milliCPU, b.milliCPU), cmp.Compare(a.gpus, b.gpus),
			cmp.Compare(a.milliGPU, b.milliGPU), cmp.Compare(a.models, b.models))
	})
	var pods int64
	for i := range all {
		if pods += all[i].pods; float64(pods) >= share*float64(len(t.jobs)) {
			return all[:i+1]
		}
	}
	return all
}

// readTrace reads a trace in the format of Alibaba's cluster-trace-gpu-v2023.
func readTrace(nodes, pods string) (*trace, error) {
	t := &trace{}
	err := errors.Join(
		readCSV(nodes, func(row *row) {
			t.machines = append(t.machines, machine{row.number("cpu_milli"), row.number("memory_mib"),
				row.number("gpu"), row.text("model")})
		}),
		readCSV(pods, func(row *row) {
			t.jobs = append(t.jobs, job{row.number("cpu_milli"), row.number("memory_mib"), row.number("num_gpu"),
				row.number("gpu_milli"), row.text("gpu_spec")})
		}))
	needGPUs := slices.ContainsFunc(t.jobs, func(j job) bool { return j.milliGPUs() > 0 })
	if err == nil && (t.milliGPUs() == 0 || !needGPUs) {
		err = fmt.Errorf("%s has no GPUs, or %s no pods for them", nodes, pods)
	}
	return t, err
}

// row is a row of a file with names of columns. The first problem ends up in err.
type row struct {
	columns map[string]int
	values  []string
	err     error
}

func (r *row) text(column string) string {
	i, ok := r.columns[column]
	if !ok {
		r.err = cmp.Or(r.err, fmt.Errorf("there is no column %s", column))
		return ""
	}
	return r.values[i]
}

func (r *row) number(column string) int64 {
	n, err := strconv.ParseInt(r.text(column), 10, 64)
	r.err = cmp.Or(r.err, err)
	return n
}

// readCSV calls a function for each row of a file, which may be compressed.
func readCSV(name string, do func(*row)) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	var from io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if from, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	lines, err := csv.NewReader(from).ReadAll()
	if err != nil || len(lines) == 0 {
		return errors.Join(fmt.Errorf("%s has no rows", name), err)
	}
	columns := map[string]int{}
	for i, column := range lines[0] {
		columns[column] = i
	}
	for i, values := range lines[1:] {
		r := &row{columns: columns, values: values}
		if do(r); r.err != nil {
			return fmt.Errorf("%s, row %d: %w", name, i+2, r.err)
		}
	}
	return nil
}
