// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/remote"
	"github.com/livesched/livesched/internal/dashboard"
	"github.com/livesched/livesched/internal/loadhistory"
)

type dashboardOptions struct {
	*options
	livesched  remoteOptions
	port       uint16
	prometheus loadhistory.Config
}

func newDashboard(shared *options) *cobra.Command {
	o := &dashboardOptions{options: shared}
	command := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a page about a running livesched on this machine",
		Long: "Serve a page that shows what waits and why, what runs, where room is, and what was decided. The " +
			"command listens on 127.0.0.1 and prints the address to open in a browser. Press Ctrl-C to end it.\n\n" +
			"The page shows what you may see: the command sends your credentials with each question, and the browser " +
			"never gets them. It changes nothing. As with `kubectl proxy`, other users of this machine can open the " +
			"page while the command runs.\n\n" +
			"The command requires the permissions of the Roles livesched-viewer, and livesched-client in livesched's " +
			"namespace, and the permission to list nodes for the pages about room. The page says what you may not " +
			"see.\n\nlivesched has the load of its last 8 hours. With --prometheus, charts show up to 30 days. The " +
			"command asks Prometheus, not the browser.",
		Example: "  kubectl livesched dashboard\n\n  # Another port\n  kubectl livesched dashboard --port 8001\n\n" +
			"  # Charts of up to 30 days\n" +
			"  kubectl port-forward -n monitoring svc/prometheus 9090 &\n" +
			"  kubectl livesched dashboard --prometheus http://127.0.0.1:9090",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	command.Flags().Uint16Var(&o.port, "port", 0, "Port on 127.0.0.1. Default: a free one.")
	command.Flags().StringVar(&o.prometheus.URL, "prometheus", "", "URL of a Prometheus that scrapes livesched with "+
		"the job label livesched, such as http://127.0.0.1:9090: charts then show up to 30 days. It may have a user "+
		"and a password.")
	command.Flags().StringVar(&o.prometheus.TokenFile, "prometheus-token-file", "",
		"File with a bearer token for --prometheus.")
	command.Flags().StringVar(&o.prometheus.CAFile, "prometheus-ca", "",
		"File with the certificate authorities that verify --prometheus. Default: the authorities of the system.")
	o.livesched.addFlags(command)
	return command
}

// The limits of the time for requests of the browser.
const (
	headerTimeout = 10 * time.Second
	// closeTimeout is how long requests may take to end when the command ends.
	closeTimeout = 2 * time.Second
)

func (o *dashboardOptions) run(ctx context.Context) error {
	history, err := o.history()
	if err != nil {
		return err
	}
	source, err := o.source()
	if err != nil {
		return err
	}
	defer source.livesched.Kept.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(o.port))))
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	pages := dashboard.NewHandler("", func(*http.Request) (dashboard.Source, error) { return source, nil }, history)
	server := &http.Server{Handler: onlyLocal(address, pages), ReadHeaderTimeout: headerTimeout}
	ended := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if server.Shutdown(closing) != nil {
			_ = server.Close()
		}
	})
	defer ended()
	if _, err := fmt.Fprintf(o.Out, "http://%s/\n", address); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// history returns what asks Prometheus, nil if none is named.
func (o *dashboardOptions) history() (dashboard.History, error) {
	if o.prometheus.URL == "" {
		if o.prometheus.TokenFile != "" || o.prometheus.CAFile != "" {
			return nil, errors.New("--prometheus-token-file, --prometheus-ca: have no effect without --prometheus")
		}
		return nil, nil //nolint:nilnil // none is no error
	}
	o.prometheus.Namespace = o.liveschedNamespace
	client, err := loadhistory.New(&o.prometheus)
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w", err)
	}
	return client, nil
}

// onlyLocal refuses requests that a page of another site makes, and those under another name: a
// name of a foreign site may resolve to this machine.
func onlyLocal(address string, next http.Handler) http.Handler {
	_, port, _ := net.SplitHostPort(address) // a listener's address
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if r.Host != address && r.Host != net.JoinHostPort("localhost", port) ||
			site != "" && site != "same-origin" && site != "none" {
			http.Error(w, "Open http://"+address+"/ in your browser.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// dashboardSource answers the questions of the user of the command. Any goroutine may use it.
type dashboardSource struct {
	livesched *remote.Livesched
	cluster   client.Client

	// reading holds one item while the room of nodes is read, and guards what was read.
	reading chan struct{}
	rooms   keptRooms
}

func (o *dashboardOptions) source() (*dashboardSource, error) {
	livesched, err := o.remote(&o.livesched, answerTimeout)
	if err != nil {
		return nil, err
	}
	livesched.Kept = &remote.Kept{}
	cluster, err := o.client()
	if err != nil {
		return nil, err
	}
	return &dashboardSource{livesched: livesched, cluster: cluster, reading: make(chan struct{}, 1)}, nil
}

// PendingKinds implements dashboard.Source.
func (s *dashboardSource) PendingKinds(ctx context.Context, namespace string,
	limit int) (*v1alpha1.PendingKindList, error) {
	var list v1alpha1.PendingKindList
	_, err := s.livesched.List(ctx, "pendingkinds", namespace, map[string]string{"limit": strconv.Itoa(limit)}, &list)
	return &list, err
}

// PendingPods implements dashboard.Source.
func (s *dashboardSource) PendingPods(ctx context.Context, namespace, id string,
	limit int) (*v1alpha1.PendingKindList, error) {
	var list v1alpha1.PendingKindList
	parameters := map[string]string{"id": id, "limit": strconv.Itoa(limit)}
	_, err := s.livesched.List(ctx, "pendingkinds", namespace, parameters, &list)
	return &list, err
}

// NodeAllocations implements dashboard.Source.
func (s *dashboardSource) NodeAllocations(ctx context.Context,
	pod types.NamespacedName) (*v1alpha1.NodeAllocationList, error) {
	select { // a page waits no longer for another one's request than for its own
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if kept := s.rooms.get(pod, time.Now()); kept != nil {
		return kept, nil
	}
	parameters := map[string]string{}
	if pod.Name != "" {
		parameters = map[string]string{"namespace": pod.Namespace, "pod": pod.Name}
	}
	list := &v1alpha1.NodeAllocationList{}
	if _, err := s.livesched.List(ctx, "nodeallocations", "", parameters, list); err != nil {
		return nil, err
	}
	s.rooms.keep(pod, list, time.Now())
	return list, nil
}

// LoadSamples implements dashboard.Source.
func (s *dashboardSource) LoadSamples(ctx context.Context, last time.Duration) (*v1alpha1.LoadSampleList, error) {
	var list v1alpha1.LoadSampleList
	_, err := s.livesched.List(ctx, "loadsamples", "", map[string]string{"last": last.String()}, &list)
	return &list, err
}

// Explain implements dashboard.Source.
func (s *dashboardSource) Explain(ctx context.Context, pod types.NamespacedName, node string,
	maxAge time.Duration) (*v1alpha1.PodExplanation, error) {
	var explanation v1alpha1.PodExplanation
	parameters := map[string]string{"maxAge": maxAge.String()}
	if node != "" {
		parameters["node"] = node
	}
	_, err := s.livesched.Get(ctx, "podexplanations", pod.Namespace, pod.Name, parameters, &explanation)
	return &explanation, err
}

// Decisions implements dashboard.Source.
func (s *dashboardSource) Decisions(ctx context.Context, query url.Values) (*v1alpha1.DecisionList, error) {
	parameters := map[string]string{}
	for name := range query {
		if name != "namespace" {
			parameters[name] = query.Get(name)
		}
	}
	var list v1alpha1.DecisionList
	_, err := s.livesched.List(ctx, "decisions", query.Get("namespace"), parameters, &list)
	return &list, err
}

// Simulate implements dashboard.Source.
func (s *dashboardSource) Simulate(ctx context.Context,
	simulation *v1alpha1.Simulation) (*v1alpha1.SimulationStatus, error) {
	answer := simulation.DeepCopy()
	_, err := s.livesched.Create(ctx, "simulations", simulation.Metadata.Namespace, answer)
	return &answer.Status, err
}

// Profiles implements dashboard.Source.
func (s *dashboardSource) Profiles(ctx context.Context) ([]v1alpha1.SchedulerProfile, error) {
	var list v1alpha1.SchedulerProfileList
	err := s.cluster.List(ctx, &list)
	return list.Items, err
}
