// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
)

// completes returns what a shell shows for the last word of a command line.
func completes(ctx context.Context, cache string, words ...string) []string {
	GinkgoHelper()
	got := kubectl(ctx, append([]string{"__complete", "--cache-dir=" + cache}, words...)...)
	Expect(got.code).To(BeZero(), got.errOut)
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	return lines[:len(lines)-1] // the last one is the directive
}

var _ = Describe("completion", func() {
	It("completes names in arguments and flags", func(ctx context.Context) {
		cache := GinkgoT().TempDir()
		good := profile("good")
		create(ctx, good, profile("goof"), policy("strict", 4))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(good), good)).To(Succeed())
		store(ctx, revisionOf(good, 1))
		store(ctx, revisionOf(good, 12, weight("NodeAffinity", 3)))
		create(ctx, objects.Pod("default", "web-1", "good", "1", "1Gi"),
			objects.Pod("default", "web-2", "good", "1", "1Gi"))
		createForSpec(ctx, objects.Pod(kept, "other", "good", "1", "1Gi")) // outside the namespace that is cleared
		for name, pool := range map[string]string{"gpu-1": "gpu", "gpu-2": "gpu", "plain": ""} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
			if pool != "" {
				node.Labels["cloud.google.com/gke-nodepool"] = pool
			}
			createForSpec(ctx, node)
		}
		llm := file("kind: LeaderWorkerSet\nspec:\n  leaderWorkerTemplate:\n    leaderTemplate: {spec: {containers: " +
			"[{name: c}]}}\n" +
			"    workerTemplate: {spec: {containers: [{name: c}]}}\n")
		want := map[string][]string{
			"status ":                              {"good", "goof"},
			"status good ":                         {"goof"},
			"diff g":                               {"good", "goof"},
			"diff spol/":                           {"spol/strict"},
			"rollback str":                         {"strict"},
			"history po":                           {"policy/"},
			"diff good ":                           {},
			"history ":                             {"good", "goof", "policy/", "profile/", "strict"},
			"history profile ":                     {"good", "goof"},
			"history profile/":                     {"profile/good", "profile/goof"},
			"history nosuch ":                      {},
			"rollback policy s":                    {"strict"},
			"rollback profile good ":               {},
			"explain p":                            {"pod/", "podgroup/"},
			"explain pod ":                         {"web-1", "web-2"},
			"explain po/web":                       {"po/web-1", "po/web-2"},
			"explain pod -n " + kept + " ":         {"other"},
			"explain nosuch/":                      {},
			"explain pod/web-1 -n kep":             {kept},
			"decisions ":                           {"pod/", "podgroup/"},
			"decisions d":                          {},
			"decisions pod/web":                    {"pod/web-1", "pod/web-2"},
			"decisions pod web-2 ":                 {},
			"decisions --result B":                 {"BindFailed", "Binding", "Bound"},
			"decisions --profile g":                {"good", "goof"},
			"decisions --node gpu":                 {"gpu-1", "gpu-2"},
			"rollout ret":                          {"retry\tStart an aborted roll-out again"},
			"rollout status g":                     {"good", "goof"},
			"rollout promote profile/":             {"profile/good", "profile/goof"},
			"rollout abort good ":                  {},
			"status --livesched-namespace livesch": {"livesched-system"},
			"simulate --add-nodes ":                {"gpu-1=", "gpu-2=", "gpu=", "plain="},
			"simulate --remove-nodes gpu-1,g":      {"gpu-1,gpu-1", "gpu-1,gpu-2"},
			"simulate pod/w":                       {"pod/web-1", "pod/web-2"},
			"capacity -f " + llm + " --template ":  {"leader", "worker"},
			"simulate --scheduler-name g":          {"good", "goof"},
			"simulate --pods ":                     {"all", "last=", "pending"},
			"rollback profile good --policy ":      {"keep", "restore"},
			"status --context ":                    {"livesched-sandbox"},
			"status --color ":                      {"auto", "always", "never"},
			"history profile good --livesched-namespace " + kept + " --revision 1":    {"1", "12"},
			"rollback profile/good --livesched-namespace " + kept + " --to-revision ": {"1", "12"},
			"diff good --livesched-namespace " + kept + " --from ":                    {"1", "12"},
		}
		got := map[string][]string{}
		for line := range want {
			got[line] = completes(ctx, cache, strings.Split(line, " ")...)
		}
		Expect(cmp.Diff(want, got)).To(BeEmpty())
		Expect(completes(ctx, cache, "status", "-o", "")).To(ContainElements("json", "yaml"))
	}, SpecTimeout(time.Minute))

	It("shows nothing when the API server does not answer", func(ctx context.Context) {
		got := kubectl(ctx, "__complete", "status", "--server=https://127.0.0.1:1", "")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(HavePrefix(":"))
	})

	It("writes the file with which kubectl completes the plugin", func(ctx context.Context) {
		got := kubectl(ctx, "completion", "kubectl")
		Expect(got.code).To(BeZero(), got.errOut)
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "kubectl_complete-livesched"), []byte(got.out), 0o700)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "kubectl-livesched"),
			[]byte("#!/bin/sh\nfor word; do echo \"<$word>\"; done\n"), 0o700)).To(Succeed())
		command := exec.CommandContext(ctx, filepath.Join(dir, "kubectl_complete-livesched"), "explain", "pod", "")
		command.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		Expect(command.Output()).To(BeEquivalentTo("<__complete>\n<explain>\n<pod>\n<>\n"))
	})
})
