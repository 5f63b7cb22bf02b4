// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package testextender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/livesched/livesched/test/controlplane/process"
)

// Build builds the extender's program into a directory and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "extender")
	_, file, _, _ := runtime.Caller(0)
	command := exec.CommandContext(ctx, "go", "build", "-o", program, "./program")
	command.Dir = filepath.Dir(file)
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the extender: %w\n%s", err, output)
	}
	return program, nil
}

// Options configures an extender.
type Options struct {
	// Program is the result of Build. Dir is the directory for logs.
	Program, Dir string
	// Kubeconfig is the kubeconfig file with which the extender binds pods.
	Kubeconfig string
	// Certificate and Key are files; with them the extender uses TLS. ClientCA is the file with the
	// CA certificates that must sign the clients' certificates.
	Certificate, Key, ClientCA string
}

// Extender is a started process.
type Extender struct {
	// URL is the prefix of the verbs. It stays the same when the process is started again.
	URL string

	options         Options
	listen, control string
	client          *http.Client
	process         *process.Process
}

// Start starts an extender and waits until it accepts requests.
func Start(ctx context.Context, o Options) (*Extender, error) {
	e := &Extender{options: o, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}}
	scheme := "http"
	if o.Certificate != "" {
		scheme = "https"
	}
	for _, address := range []*string{&e.listen, &e.control} {
		port, err := process.FreePort()
		if err != nil {
			return nil, err
		}
		*address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	e.URL = scheme + "://" + e.listen + "/scheduler"
	return e, e.Restart(ctx)
}

// Restart starts the process again after it has ended, at the same address and without a script.
func (e *Extender) Restart(ctx context.Context) error {
	args := []string{"-listen=" + e.listen, "-control=" + e.control, "-kubeconfig=" + e.options.Kubeconfig}
	for flag, value := range map[string]string{"cert": e.options.Certificate, "key": e.options.Key, "client-ca": e.options.ClientCA} {
		if value != "" {
			args = append(args, "-"+flag+"="+value)
		}
	}
	p, err := process.Start(process.Config{
		Name: "extender", Path: e.options.Program, Args: args, LogFile: filepath.Join(e.options.Dir, "extender-"+filepath.Base(e.listen)+".log"),
	})
	if err != nil {
		return err
	}
	e.process = p
	return p.WaitReady(ctx, func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.listen)
		if err != nil {
			return err
		}
		_ = connection.Close() // the extender accepts connections
		_, err = e.Calls(ctx)
		return err
	})
}

// Stop ends the process.
func (e *Extender) Stop() error { return e.process.Stop(5 * time.Second) }

// Done is closed when the process has ended.
func (e *Extender) Done() <-chan struct{} { return e.process.Done() }

// Perform sets the responses of the extender from now on.
func (e *Extender) Perform(ctx context.Context, script Script) error {
	text, err := json.Marshal(script)
	if err != nil {
		return err
	}
	return e.ask(ctx, http.MethodPut, text, nil)
}

// Calls returns the calls since the last time.
func (e *Extender) Calls(ctx context.Context) (calls []Call, err error) {
	err = e.ask(ctx, http.MethodGet, nil, &calls)
	return calls, err
}

func (e *Extender) ask(ctx context.Context, method string, body []byte, result any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+e.control+"/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, request.URL, response.Status)
	}
	if result == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(result)
}
