// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

var update = flag.Bool("update", false, "write the frames in testdata")

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// cluster returns the data of a cluster: 120 pods placed in the last 30 seconds, and pods that
// wait.
func cluster() Data {
	d := Data{Time: now, Profiles: []print.ProfileStatus{
		{Name: "binpack", Ready: "True", Revision: "pdh8zspwhj", Since: metav1.NewTime(now.Add(-14 * time.Minute)),
			Pods: &print.PodCounts{Active: 3, Unschedulable: 1312}},
		{Name: "spread", Ready: "False", Revision: "b47874bsgc", Since: metav1.NewTime(now.Add(-3 * 24 * time.Hour)),
			Pods: &print.PodCounts{Backoff: 2, Gated: 1}},
		{Name: "a-profile-with-quite-a-long-name", Ready: "Unknown"},
	}}
	add := func(ago time.Duration, pod, profile string, result v1alpha1.DecisionResult) {
		d.Decisions = append(d.Decisions, v1alpha1.Decision{
			Time: metav1.NewMicroTime(now.Add(-ago)), Namespace: "ml", Pod: pod, PodUID: types.UID(pod),
			Profile: profile, Result: result, Attempt: 4,
		})
	}
	add(time.Second, "train-0-xk2vz", "binpack", v1alpha1.DecisionUnschedulable)
	add(time.Second, "train-17-b5c6d", "binpack", v1alpha1.DecisionUnschedulable)
	add(2*time.Second, "web-7d4f9c6b5d-x2x4z", "spread", v1alpha1.DecisionUnschedulable)
	add(2*time.Second, "single", "spread", v1alpha1.DecisionFailed)
	for i := range 120 {
		add(time.Duration(i)*250*time.Millisecond+3*time.Second, fmt.Sprintf("placed-%d", i), "binpack",
			v1alpha1.DecisionBound)
	}
	add(33*time.Second, "placed-1", "binpack", v1alpha1.DecisionUnschedulable) // it has a node now
	return d
}

func frame(t *testing.T, messages ...tea.Msg) tea.Model {
	t.Helper()
	var m tea.Model = newModel(t.Context(), func(context.Context) Data { return cluster() }, time.Second, false)
	for _, message := range messages {
		m, _ = m.Update(message)
	}
	return m
}

func key(name string) tea.Msg {
	switch name {
	case "down":
		return tea.KeyMsg{Type: tea.KeyDown}
	case "end":
		return tea.KeyMsg{Type: tea.KeyEnd}
	}
	return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(name)}
}

func TestFrames(t *testing.T) {
	failed := Data{Time: now.Add(2 * time.Second), Errors: []string{"decisions: forbidden", "profiles:\n no leader"}}
	for name, messages := range map[string][]tea.Msg{
		"first":    nil,
		"80x24":    {cluster()},
		"120x12":   {tea.WindowSizeMsg{Width: 120, Height: 12}, cluster()},
		"sorted":   {cluster(), key("s")},
		"scrolled": {tea.WindowSizeMsg{Width: 50, Height: 7}, cluster(), key("down"), key("down"), key("down")},
		"end":      {tea.WindowSizeMsg{Width: 80, Height: 8}, cluster(), key("end")},
		"grown": {tea.WindowSizeMsg{Width: 80, Height: 7}, cluster(), key("end"),
			tea.WindowSizeMsg{Width: 80, Height: 20}},
		"help":    {cluster(), key("?")},
		"paused":  {cluster(), key("p")},
		"failed":  {cluster(), failed},
		"nothing": {Data{Time: now, Errors: failed.Errors}},
	} {
		t.Run(name, func(t *testing.T) {
			m := frame(t, messages...)
			got := m.View() + "\n"
			lines := strings.Split(m.View(), "\n")
			if size := m.(model); len(lines) > size.height {
				t.Errorf("%d lines on a terminal of %d", len(lines), size.height)
			}
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestOnceShowsAllLines(t *testing.T) {
	plain, colored := Once(cluster(), 80, false), Once(cluster(), 80, true)
	if d := cmp.Diff(plain, ansi.Strip(colored)); d != "" || colored == plain {
		t.Errorf("with colours:\n%s", d)
	}
	if !strings.Contains(plain, "ml/single") || strings.Contains(plain, "quit") {
		t.Error(plain)
	}
}

func TestKeysAndReads(t *testing.T) {
	m := frame(t, cluster())
	for _, quit := range []tea.Msg{key("q"), tea.KeyMsg{Type: tea.KeyCtrlC}, tea.KeyMsg{Type: tea.KeyEsc}} {
		if _, command := m.Update(quit); command == nil || command() != tea.Quit() {
			t.Errorf("%v does not quit", quit)
		}
	}
	if _, command := m.Update(tick{}); command == nil || len(command().(Data).Profiles) != 3 {
		t.Error("a tick does not read")
	}
	paused, command := m.Update(key("p"))
	if _, again := paused.Update(tick{}); command != nil || again != nil {
		t.Error("it reads while it is paused")
	}
	if _, command := paused.Update(key("p")); command == nil {
		t.Error("it does not read after a pause")
	}
	help, _ := m.Update(key("?"))
	if closed, command := help.Update(tea.KeyMsg{Type: tea.KeyEsc}); command != nil || closed.View() != m.View() {
		t.Error("Esc does not close the help")
	}
}

// TestAGroupThatIsRefusedAsAWholeWaits has groups whose pods were tried before, after or never.
func TestAGroupThatIsRefusedAsAWholeWaits(t *testing.T) {
	group := func(name string) v1alpha1.Decision {
		return v1alpha1.Decision{Namespace: "ml", PodGroup: name, Profile: "p", Result: v1alpha1.DecisionUnschedulable}
	}
	member := func(uid, name, of string) v1alpha1.Decision {
		d := group(of)
		d.PodUID, d.Pod = types.UID(uid), name
		return d
	}
	var got []string
	for _, w := range kindsThatWait([]v1alpha1.Decision{ // the last one first
		group("train-0"), group("train-0"), member("1", "train-0-2", "train-0"),
		member("2", "serve-0", "serve"), member("3", "serve-1", "serve"), group("serve"),
		member("4", "alone-1", ""),
	}) {
		got = append(got, fmt.Sprintf("%d %s", w.pods, w.name))
	}
	want := []string{"2 ml/serve-*", "1 ml/alone-*", "1 ml/podgroup/train-0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
