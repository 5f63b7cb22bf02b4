// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livesched/livesched/test/docs"
)

const root = "../.."

// TestTutorialsShowWhatTheirCommandsPrint follows each tutorial on a cluster of its own. With
// UPDATE=1 it writes the outputs into the pages.
func TestTutorialsShowWhatTheirCommandsPrint(t *testing.T) {
	requirePrograms(t)
	pages, err := docs.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	for _, page := range pages {
		if filepath.Dir(page.File) != "docs/tutorials" {
			continue
		}
		t.Run(filepath.Base(page.File), func(t *testing.T) { follow(t, page) })
		followed++
	}
	if followed < 2 {
		t.Errorf("found only %d tutorials", followed)
	}
}

func requirePrograms(t *testing.T) {
	t.Helper()
	if os.Getenv("TUTORIALS") == "" {
		t.Skip("it needs the programs of `make quickstart` and kubectl: run `make test-tutorials`")
	}
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Fatal(err)
	}
}

func follow(t *testing.T, page docs.Page) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s := shell{startCluster(ctx, t)}
	steps := page.Steps()
	printed, err := s.take(ctx, steps)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range steps {
		t.Logf("$ %s\n%s", step.Command, printed[i])
		if strings.TrimSpace(step.Output) != "" && !docs.Shows(step.Output, printed[i]) {
			report(t, "%q prints\n%s\nbut the page shows\n%s", step.Command, printed[i], step.Output)
		}
	}
	write(t, page.File, steps, printed)
}

// startCluster starts the cluster of `make quickstart NODES=6 TOUR=0` until the end of the test,
// and returns a directory that looks like the repository to its readers.
func startCluster(ctx context.Context, t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin", "config"} {
		if err := os.Symlink(filepath.Join(absolute, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	output, written := io.Pipe()
	quickstart := exec.Command(filepath.Join(absolute, "bin", "quickstart"), "-nodes=6", "-bare",
		"-dir="+filepath.Join(dir, ".sandbox"))
	quickstart.Dir, quickstart.Stdout, quickstart.Stderr = absolute, written, written
	if err := quickstart.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- quickstart.Wait()
		_ = written.Close()
	}()
	t.Cleanup(func() {
		if err := quickstart.Process.Signal(os.Interrupt); err != nil {
			return // it has ended
		}
		if err := <-ended; err != nil {
			t.Logf("The quickstart ended: %v", err)
		}
	})
	up := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "The cluster stays up") {
				up <- true
			}
		}
		close(up)
	}()
	select {
	case <-ctx.Done():
		t.Fatal("the cluster did not start in time")
	case ok := <-up:
		if !ok {
			t.Fatal("the quickstart ended")
		}
	}
	return dir
}

func TestOutputsAreWritten(t *testing.T) {
	text := "Do:\n```\n$ kubectl get x\nold 2s\n$ kubectl get y\nsame 2s\n$ kubectl get z\na\n...\n```\n"
	steps := []docs.Step{
		{Command: "kubectl get x", Output: "old 2s"}, {Command: "kubectl get y", Output: "same 2s"},
		{Command: "kubectl get z", Output: "a\n...\n"},
	}
	got := rewritten(text, steps, []string{"new 3s\n", "same 3s\n", "a\nb\n"})
	if want := "Do:\n```\n$ kubectl get x\nnew 3s\n$ kubectl get y\nsame 2s\n$ kubectl get z\na\n...\n```\n"; got !=
		want {
		t.Errorf("got\n%s", got)
	}
}
