// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/livesched/livesched/internal/scheduler/capture"
)

func podNamed(name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.NodeName = node
	return p
}

func TestFindPending(t *testing.T) {
	snapshot := &capture.Snapshot{Pods: []*corev1.Pod{podNamed("bound", "n1")}}
	for name, want := range map[string]string{
		"default/bound": "the pod default/bound is on node n1", "default/nobody": "no pod is pending",
	} {
		if _, err := findPending(snapshot, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	snapshot.Pending = []*corev1.Pod{podNamed("one", ""), podNamed("two", "")}
	if pod, err := findPending(snapshot, "default/two"); err != nil || pod.Name != "two" {
		t.Errorf("got %v, %v", pod, err)
	}
	if _, err := findPending(snapshot, "two"); err == nil ||
		!strings.Contains(err.Error(), "pending are, for example, default/one, default/two") {
		t.Errorf("got %v", err)
	}
}

func TestReplayOfWhatIsNoSnapshotFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("no snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	noReplay := func(context.Context, *capture.Snapshot) (Replay, error) { panic("there is no snapshot to open") }
	for _, args := range [][]string{{"replay", name}, {"replay", name + "-missing"}, {"replay"},
		{"replay", name, "-f", "a", "--explain", "b"}, {"snapshot", "--decisions=-1"}} {
		var out, errOut bytes.Buffer
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}
		if code := Run(t.Context(), args, streams, noReplay); code != exitFailed || errOut.Len() == 0 || out.Len() > 0 {
			t.Errorf("%v: exit code %d, %s%s", args, code, &out, &errOut)
		}
	}
}

func TestReplayIsDoneByAProgramInThePath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if code, _, errOut := runCommand(t, "replay", "bug.gz"); code != exitFailed ||
		!strings.Contains(errOut,
			"kubectl-livesched-replay is neither in the directory of this program nor in your PATH: download it from") {
		t.Errorf("without the program: exit code %d, %s", code, errOut)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl-livesched-replay"),
		[]byte("#!/bin/sh\necho \"$@\"\necho why >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := runCommand(t, "--color", "never", "replay", "replay", "--seed", "2", "-f", "a.yaml")
	if code != exitFound || out != "--color never replay --seed 2 -f a.yaml\n" || errOut != "why\n" {
		t.Errorf("exit code %d, output %q, errors %q", code, out, errOut)
	}
}

func TestNamesOfPseudonyms(t *testing.T) {
	name := filepath.Join(t.TempDir(), "names.tsv")
	want := map[string]string{"xbbb": "default", "xaaa": "web", "xccc": "a name with blanks"}
	var text bytes.Buffer
	if err := writeNames(&text, want); err != nil ||
		text.String() != "xccc\ta name with blanks\nxbbb\tdefault\nxaaa\tweb\n" {
		t.Errorf("%q, %v", &text, err)
	}
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readNames(name); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if err := os.WriteFile(name, []byte("xaaa\tweb\nno names\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readNames(name); err == nil || !strings.Contains(err.Error(), "names.tsv:2: must be a pseudonym") {
		t.Errorf("got %v", err)
	}
}

func TestSnapshotChecksItsFiles(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there.gz")
	if err := os.WriteFile(there, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := there + "-other"
	for _, test := range []struct{ args, want string }{
		{"-o json", "--output: a snapshot has one format, and json is not a file: name the file with --file"},
		{"-o jsonpath={.a}", "is not a file"},
		{"--file " + there, "there.gz exists: use --force to replace it, or name another one"},
		{"-o " + there, "there.gz exists: use --force"},
		{"--file " + other + " --pseudonyms " + there, "there.gz exists: use --force"},
		{"--file " + other + " --pseudonyms " + other, "--pseudonyms: must be another file"},
		{"--file " + other + " --pseudonyms -", "--pseudonyms: must be another file, not -"},
		{"--pseudonyms a --redact=false", "--pseudonyms: a snapshot that is not redacted has no pseudonyms"},
		{"--file " + other, "localhost:8080"}, // no cluster
		{"-o " + other, "localhost:8080"},
		{"--force --file " + there, "localhost:8080"},
	} {
		code, _, errOut := runCommand(t, append([]string{"snapshot"}, strings.Fields(test.args)...)...)
		if code != exitFailed || !strings.Contains(errOut, test.want) {
			t.Errorf("%s: %d %s", test.args, code, errOut)
		}
		if strings.Contains(errOut, "deprecated: use --file") != (strings.HasPrefix(test.args, "-o /")) {
			t.Errorf("%s: %s", test.args, errOut)
		}
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "mine" {
		t.Errorf("the file has become %q, %v", text, err)
	}
}

func TestAFileIsWrittenAsAWhole(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	write := func(text string, err error) (int64, error) {
		return writeFile(name, func(w io.Writer) error {
			_, writing := io.WriteString(w, text)
			return errors.Join(writing, err)
		})
	}
	if size, err := write("first", nil); err != nil || size != 5 {
		t.Fatalf("got %d, %v", size, err)
	}
	if _, err := write("second", errors.New("broken")); err == nil {
		t.Error("the error is lost")
	}
	text, err := os.ReadFile(name)
	if err != nil || string(text) != "first" {
		t.Errorf("got %q, %v", text, err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	for size, want := range map[int64]string{0: "0.0 kB", 11474: "11.5 kB", 9_908_000: "9.9 MB"} {
		if got := bytesOf(size); got != want {
			t.Errorf("%d bytes are %s", size, got)
		}
	}
}
