// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// command is a livesched in a process of its own.
type command struct {
	cmd    *exec.Cmd
	probes string // host:port of /livez and /readyz
	output *output
	ended  chan struct{} // closed when the process has ended
}

// livesched starts a process that ends with the spec. It serves only health probes.
func livesched(args ...string) *command {
	GinkgoHelper()
	c := &command{probes: freeAddress(), output: &output{}, ended: make(chan struct{})}
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	c.cmd = exec.Command(self,
		append([]string{"--secure-port=0", "--health-probe-bind-address=" + c.probes}, args...)...)
	c.cmd.Env = append(os.Environ(), asCommand+"=1")
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	Expect(c.cmd.Start()).To(Succeed())
	go func() {
		defer close(c.ended)
		var exit *exec.ExitError
		if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			fmt.Fprintln(c.output, err)
		}
	}()
	DeferCleanup(func() {
		if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			Fail(err.Error())
		}
		<-c.ended
		fmt.Fprint(GinkgoWriter, c.output)
	})
	return c
}

// run runs a livesched that ends by itself, and returns its exit code and output.
func run(args ...string) (code int, text string) {
	GinkgoHelper()
	c := livesched(args...)
	Eventually(c.ended).WithTimeout(time.Minute).Should(BeClosed())
	return c.cmd.ProcessState.ExitCode(), c.output.String()
}

// expectReady waits until livesched is ready.
func (c *command) expectReady(ctx context.Context) {
	GinkgoHelper()
	Eventually(get).WithArguments(ctx, "http://"+c.probes+"/readyz").Should(HaveField("Code", http.StatusOK),
		c.output.String)
}

// signal sends a signal, and reports whether the process had not ended. On a busy machine the
// leader may lose the lease, and end, by itself.
func (c *command) signal(s os.Signal) bool {
	GinkgoHelper()
	err := c.cmd.Process.Signal(s)
	Expect(err).To(Or(Succeed(), MatchError(os.ErrProcessDone)))
	return err == nil
}

// terminate sends SIGTERM, waits until the process has ended, and returns how long that took.
func (c *command) terminate() time.Duration {
	GinkgoHelper()
	began := time.Now()
	Expect(c.cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	Eventually(c.ended).WithTimeout(time.Minute).Should(BeClosed())
	return time.Since(began)
}

// answer is the response of an endpoint. Code is 0 if it could not be reached.
type answer struct {
	Code int
	Body string
}

func get(ctx context.Context, url string) answer { return getWith(ctx, http.DefaultClient, url) }

func getWith(ctx context.Context, client *http.Client, url string) answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{Body: err.Error()}
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{Body: err.Error()}
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return answer{Body: err.Error()}
	}
	return answer{Code: response.StatusCode, Body: string(body)}
}

// output collects the output of a process. It is safe for concurrent use.
type output struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
