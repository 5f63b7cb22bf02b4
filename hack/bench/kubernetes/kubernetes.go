// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubernetes runs the scheduler benchmark of Kubernetes, test/integration/scheduler_perf,
// end to end with livesched, with kube-scheduler, and with a client that only writes what a
// scheduler would write.
//
// It reads the test cases and templates in the module k8s.io/kubernetes, and runs their operations
// on an etcd and a kube-apiserver of their own for each workload and contender. It measures the
// throughput as upstream does. Upstream runs API server, scheduler and test in one process; here
// each has its own.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/controlplane/binaries"
)

type options struct {
	labels        string
	cases         string
	contenders    []string
	within        limits
	limit         time.Duration
	setupLimit    time.Duration
	state         string
	list          bool
	livesched     string
	liveschedArgs []string
}

// command is the name of the subcommand.
const command = "kubernetes"

// Command returns the subcommand.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   command,
		Short: "Kubernetes' own scheduler benchmark, beside kube-scheduler and a client that only writes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	cmd.AddCommand(ceilingCommand())
	flags := cmd.Flags()
	flags.StringVar(&o.labels, "labels", "performance", "labels that a workload must have or, after a minus, must not")
	flags.StringVar(&o.cases, "cases", "", "regular expression for the names, Case/Workload")
	flags.StringSliceVar(&o.contenders, "contenders", contenders, "who schedules, in turn")
	flags.IntVar(&o.within.nodes, "max-nodes", 0,
		"if an operation creates more nodes, all counts are divided; 0: no limit")
	flags.IntVar(&o.within.pods, "max-pods", 0,
		"if an operation creates more pods, all counts are divided; 0: no limit")
	flags.DurationVar(&o.limit, "limit", 5*time.Minute, "how long a contender may be measured")
	flags.DurationVar(&o.setupLimit, "setup-limit", 15*time.Minute,
		"how long operations may take before, between and after that")
	flags.StringVar(&o.state, "state", "bin/benchmarks/kubernetes.json",
		"where the figures go; what the file has already is not measured again")
	flags.BoolVar(&o.list, "list", false, "list the workloads and run nothing")
	flags.StringVar(&o.livesched, "livesched", "bin/livesched", "the livesched to measure")
	flags.StringSliceVar(&o.liveschedArgs, "livesched-args", nil, "more flags of livesched, such as --fast-path=verify")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if o.within.nodes < 0 || o.within.pods < 0 {
		return errors.New("--max-nodes and --max-pods must not be negative")
	}
	if err := report.OneOf("contenders", o.contenders, contenders); err != nil {
		return err
	}
	selected, version, err := o.selected(ctx)
	if err != nil {
		return err
	}
	if o.list {
		return list(os.Stdout, selected, o.within)
	}
	b, err := o.newBench(ctx, version)
	if err != nil {
		return err
	}
	err = b.measureAll(ctx, selected)
	for _, table := range Tables(b.report) {
		fmt.Println()
		err = errors.Join(err, table.Text(os.Stdout))
	}
	return err
}

// module returns the directory and the version of the module k8s.io/kubernetes.
func module(ctx context.Context) (dir, version string, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", "k8s.io/kubernetes").
		Output()
	if err != nil {
		return "", "", fmt.Errorf("looking for k8s.io/kubernetes: %w", err)
	}
	dir, version, _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	return filepath.Join(dir, "test", "integration", "scheduler_perf"), version, nil
}

// selected returns the workloads to run.
func (o *options) selected(ctx context.Context) ([]*workload, string, error) {
	names, err := regexp.Compile(o.cases)
	if err != nil {
		return nil, "", fmt.Errorf("--cases: %w", err)
	}
	dir, version, err := module(ctx)
	if err != nil {
		return nil, "", err
	}
	cases, err := readCases(dir)
	if err != nil {
		return nil, "", err
	}
	var all []*workload
	for _, c := range cases {
		for _, w := range c.Workloads {
			if enabled(o.labels, w.labels()) && names.MatchString(w.name()) {
				all = append(all, w)
			}
		}
	}
	if len(all) == 0 {
		return nil, "", fmt.Errorf("no workload has the labels %s and a name that matches %q", o.labels, o.cases)
	}
	return all, version, nil
}

// bench runs workloads.
type bench struct {
	*options
	report *report.Report
	// kubeScheduler is the path of kube-scheduler.
	kubeScheduler string
	// self is the path of this program, or "" in a test.
	self string
	// settings identify, for each contender, what the figures depend on.
	settings map[string]string
	// logs is the directory for the logs of contenders that failed.
	logs string
}

func (o *options) newBench(ctx context.Context, version string) (*bench, error) {
	set, err := binaries.Ensure(ctx, binaries.Config{Progress: os.Stderr}, binaries.Etcd, binaries.APIServer,
		binaries.ControllerManager, binaries.Scheduler)
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, kubeScheduler: set.Paths[binaries.Scheduler],
		logs: filepath.Join(filepath.Dir(o.state), "kubernetes-logs")}
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if b.settings, err = o.settingsOf(version); err != nil {
		return nil, err
	}
	b.report, err = report.Continue(command, o.state, map[string]string{
		"max-nodes": fmt.Sprint(o.within.nodes), "max-pods": fmt.Sprint(o.within.pods), "limit": o.limit.String(),
		"kubernetes": version,
	})
	return b, err
}

// measureAll measures all workloads with all contenders, and continues after one that failed.
func (b *bench) measureAll(ctx context.Context, selected []*workload) error {
	var errs []error
	var work []*turn
	for _, w := range selected {
		p, err := w.plan(b.within)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, name := range b.contenders {
			t := &turn{plan: p, contender: name}
			if reason := p.skipped(name); reason != "" {
				if err := b.record(t, outcome{status: statusSkipped, note: reason}); err != nil {
					return err
				}
				continue
			}
			if !b.measured(t) {
				work = append(work, t)
			}
		}
	}
	progress := newProgress(work)
	for _, t := range work {
		progress.begin(t)
		o := b.measure(ctx, t)
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		progress.end(t, o)
		if err := b.record(t, o); err != nil {
			return err
		}
		if o.status == statusFailed {
			errs = append(errs, fmt.Errorf("%s with %s: %s", t.name(), t.contender, o.note))
		}
	}
	return errors.Join(errs...)
}

// turn is a contender's turn with a workload.
type turn struct {
	*plan
	contender string
}

// measure runs a turn on a control plane of its own.
func (b *bench) measure(ctx context.Context, t *turn) outcome {
	dir, err := os.MkdirTemp("", "livesched-kubernetes-")
	if err != nil {
		return outcome{status: statusFailed, note: err.Error()}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	began := time.Now()
	o := b.runTurn(ctx, t, dir)
	o.total = time.Since(began)
	if o.status != statusOK {
		if file := keepLog(dir, b.logs, t.name(), t.contender); file != "" {
			o.note += "; log: " + file
		}
	}
	return o
}
