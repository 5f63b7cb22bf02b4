// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	liveschedapp "github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/test/docs"
	"github.com/livesched/livesched/test/testcluster"
)

// mine are files that a reader has, by the name that the documentation gives them.
var mine = map[string]string{
	"kube-scheduler.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"profiles:\n- schedulerName: my-scheduler\n",
}

var _ = Describe("the documentation", func() {
	It("shows commands that succeed, and what they print", func(ctx context.Context) {
		startLivesched(ctx, func(o *liveschedapp.Options) { o.RevisionNamespace = system })
		DeferCleanup(func(ctx context.Context) {
			Expect(k8s.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(system),
				client.HasLabels{history.LabelKind})).To(Succeed())
		})
		pages, err := docs.Pages(testcluster.Root())
		Expect(err).NotTo(HaveOccurred())
		for _, page := range pages {
			r := reader{page: page.File, dir: directory()}
			for _, step := range page.Steps() {
				switch {
				case step.File != "":
					r.save(step)
				case page.NotRun(step.Command) == "":
					r.run(ctx, step)
				}
			}
		}
	})
})

// directory returns the working directory of a reader, with files of the repository and his own.
func directory() string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	Expect(os.Symlink(filepath.Join(testcluster.Root(), "config"), filepath.Join(dir, "config"))).To(Succeed())
	sample, err := os.ReadFile(filepath.Join(dir, "config", "samples",
		"livesched_v1alpha1_schedulerprofile_binpack.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "binpack.yaml"), sample, 0o600)).To(Succeed())
	for name, content := range mine {
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}
	return dir
}

// reader takes the steps of a page.
type reader struct{ page, dir string }

// save saves a file, or compares it with what a command has written.
func (r reader) save(step docs.Step) {
	GinkgoHelper()
	path := filepath.Join(r.dir, step.File)
	if written, err := os.ReadFile(path); err == nil {
		Expect(string(written)).To(Equal(step.Content), "%s: %s", r.page, step.File)
	}
	Expect(os.WriteFile(path, []byte(step.Content), 0o600)).To(Succeed())
}

func (r reader) run(ctx context.Context, step docs.Step) {
	GinkgoHelper()
	By(r.page + ": " + step.Command)
	GinkgoT().Chdir(r.dir)
	command, file, _ := strings.Cut(step.Command, " > ")
	words := strings.Fields(command)
	Expect(len(words)).To(BeNumerically(">", 2), "%s: %q", r.page, step.Command)
	switch words[0] + " " + words[1] {
	case "kubectl livesched":
		r.livesched(ctx, step, words[2:], file)
	case "kubectl apply":
		r.apply(ctx, words[2:])
	case "kubectl wait":
		r.wait(ctx, words[2:])
	case "kubectl get", "kubectl delete":
		Expect(builder().ResourceTypeOrNameArgs(true, words[2:]...).Do().
			Visit(func(info *resource.Info, err error) error {
				if err == nil && words[1] == "delete" {
					_, err = resource.NewHelper(info.Client, info.Mapping).Delete(info.Namespace, info.Name)
				}
				return err
			})).To(Succeed(), "%s: %q", r.page, step.Command)
	default:
		Fail(r.page + ": this test cannot run " + step.Command + ": see test/docs/notrun.go")
	}
}

// livesched runs a command of the plugin, with its output in a file if there is a name.
func (r reader) livesched(ctx context.Context, step docs.Step, args []string, file string) {
	GinkgoHelper()
	result := kubectl(ctx, args...)
	if file != "" {
		Expect(os.WriteFile(file, []byte(result.out), 0o600)).To(Succeed())
		result.out = ""
	}
	printed := result.out + result.errOut
	// These two exit with 1 if they find a difference or a problem.
	if result.code != 1 || args[0] != "diff" && args[0] != "doctor" {
		Expect(result.code).To(BeZero(), "%s: %q: %s", r.page, step.Command, printed)
	}
	if step.Output != "" {
		Expect(docs.Shows(step.Output, printed)).To(BeTrue(),
			"%s: %q prints\n%s\nbut the page shows\n%s", r.page, step.Command, printed, step.Output)
	}
}

// wait waits for a condition of a profile.
func (r reader) wait(ctx context.Context, words []string) {
	GinkgoHelper()
	condition, object := "", ""
	for _, word := range words {
		if found, ok := strings.CutPrefix(word, "--for=condition="); ok {
			condition = found
		} else if !strings.HasPrefix(word, "-") {
			object = word
		}
	}
	name, ok := strings.CutPrefix(object, "schedulerprofile/")
	Expect(ok && condition != "").To(BeTrue(), "%s: wait %q", r.page, words)
	p := profile(name)
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(p.Status.Conditions, condition)).To(BeTrue())
	}).WithContext(ctx).Should(Succeed(), "%s: wait %q", r.page, words)
}

func builder() *resource.Builder {
	flags := genericclioptions.NewConfigFlags(false)
	*flags.KubeConfig = cluster.Kubeconfig()
	return resource.NewBuilder(flags).Unstructured().NamespaceParam(metav1.NamespaceDefault).DefaultNamespace().
		Flatten()
}

// apply applies objects on the server, others than those of livesched as a dry run, and waits until
// profiles are active.
func (r reader) apply(ctx context.Context, words []string) {
	GinkgoHelper()
	var files resource.FilenameOptions
	for i, word := range words {
		switch word {
		case "-f":
			files.Filenames = append(files.Filenames, words[i+1])
		case "-k":
			files.Kustomize = words[i+1]
		}
	}
	applied := 0
	var profiles []string
	Expect(builder().FilenameParam(false, &files).Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		applied++
		options := metav1.PatchOptions{FieldManager: "documentation"}
		if info.Mapping.GroupVersionKind.Group != v1alpha1.GroupVersion.Group {
			options.DryRun = []string{metav1.DryRunAll}
		} else if info.Mapping.GroupVersionKind.Kind == "SchedulerProfile" {
			profiles = append(profiles, info.Name)
		}
		data, err := runtime.Encode(unstructured.UnstructuredJSONScheme, info.Object)
		if err != nil {
			return err
		}
		_, err = resource.NewHelper(info.Client, info.Mapping).WithFieldValidation(metav1.FieldValidationStrict).
			Patch(info.Namespace, info.Name, types.ApplyPatchType, data, &options)
		return err
	})).To(Succeed(), "%s: apply %q", r.page, words)
	Expect(applied).To(BeNumerically(">", 0))
	for _, name := range profiles {
		expectProgrammed(ctx, profile(name))
	}
}
