package world

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/test/testcluster"
	"github.com/livesched/livesched/test/world/apiserver"
	"github.com/livesched/livesched/test/world/etcd"
)

func TestBubble(t *testing.T) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, f := range []string{"livesched.io_schedulerprofiles.yaml", "livesched.io_schedulingpolicies.yaml"} {
		text, err := os.ReadFile("../../config/crd/bases/" + f)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			t.Fatal(err)
		}
		crds = append(crds, crd)
	}
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] // the other one sleeps
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig())))
		defer cancel()
		server, err := apiserver.New(ctx, etcd.New(), crds...)
		if err != nil {
			t.Fatal(err)
		}
		config := &rest.Config{Host: "http://world", Transport: &apiserver.Transport{Handler: server}, QPS: -1}
		kube := kubernetes.NewForConfigOrDie(config)
		for _, name := range []string{"default", "kube-system", "livesched-system"} {
			_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err = kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("10"), "memory": resource.MustParse("4Gi")}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		err = kube.CoreV1().RESTClient().Post().AbsPath("/apis/livesched.io/v1alpha1/schedulerprofiles").Body([]byte(
			`{"apiVersion":"livesched.io/v1alpha1","kind":"SchedulerProfile","metadata":{"name":"livesched"}}`)).
			SetHeader("Content-Type", "application/json").Do(ctx).Error()
		if err != nil {
			t.Fatal(err)
		}
		o := testcluster.Options()
		o.LeaderElectionNamespace, o.RevisionNamespace = "livesched-system", "livesched-system"
		o.LeaderElect = true
		r, err := testcluster.RunFor(ctx, klog.FromContext(ctx), config, o)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p1", Namespace: "default"}, Spec: corev1.PodSpec{SchedulerName: "livesched", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if _, err := kube.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		bound := false
		for range 30 {
			time.Sleep(time.Second)
			synctest.Wait()
			p, err := kube.CoreV1().Pods("default").Get(ctx, "p1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if p.Spec.NodeName != "" {
				bound = true
				t.Log("bound to", p.Spec.NodeName, "after", time.Since(began))
				break
			}
		}
		if !bound {
			t.Error("the pod is not bound after 30 seconds")
		}
		cancel()
		<-r.Done()
		synctest.Wait()
	})
}
