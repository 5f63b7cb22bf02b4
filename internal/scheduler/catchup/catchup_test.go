// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package catchup

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/leaks"
	"github.com/livesched/livesched/test/objects"
)

func TestMain(m *testing.M) {
	metrics.Register()
	leaks.Main(m)
}

// fixture is an API server at a resource version, with an informer and a cache that a test fills.
type fixture struct {
	*testing.T
	Config
	client *fake.Clientset
	names  *metadatafake.FakeMetadataClient
	// served and cached are the resource versions of the claims that the API server and the cache
	// have, by name.
	served, cached sync.Map
	// fails is how many requests fail from now on.
	fails int
	done  chan error
	stop  context.CancelFunc
}

const version = "100"

func inFixture(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, client: fake.NewClientset(), done: make(chan error, 1)}
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		f.names = metadatafake.NewSimpleMetadataClient(scheme)
		f.serveClaims()
		f.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if f.fails > 0 {
				f.fails--
				return true, nil, errors.New("not now")
			}
			return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
		})
		// which the test fills
		informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, nil)
		f.Config = Config{Client: f.client, Metadata: f.names, Informer: informer,
			Pods: corev1listers.NewPodLister(informer.GetIndexer()), Cache: cache.New(), Claims: f}
		test(f)
	})
}

// bound returns a bound pod.
func bound(name string) *corev1.Pod {
	return objects.Stored(metav1.NamespaceDefault, name,
		func(p *corev1.Pod) { p.ResourceVersion, p.Spec.NodeName = "50", "n" })
}

// serve makes the API server have bound pods.
func (f *fixture) serve(pods ...*corev1.Pod) {
	f.Helper()
	list := &metav1.List{}
	for _, pod := range pods {
		if err := f.client.Tracker().Add(pod); err != nil {
			f.Fatal(err)
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: pod.ObjectMeta,
		}})
	}
	f.names.PrependReactor("list", "pods",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, list, nil })
}

// serveClaims lets metadata of the served claims be read.
func (f *fixture) serveClaims() {
	claim := func(name, version any) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name.(string),
			UID: types.UID(name.(string)), ResourceVersion: version.(string)}}
	}
	f.names.PrependReactor("list", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &metav1.List{}
		for name, version := range f.served.Range {
			list.Items = append(list.Items, runtime.RawExtension{Object: claim(name, version)})
		}
		return true, list, nil
	})
	f.names.PrependReactor("get", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.GetAction).GetName()
		version, ok := f.served.Load(name)
		if !ok {
			return true, nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), name)
		}
		return true, claim(name, version), nil
	})
}

// HasClaim compares versions of two digits.
func (f *fixture) HasClaim(claim *metav1.ObjectMeta) bool {
	version, ok := f.cached.Load(claim.Name)
	return ok && version.(string) >= claim.ResourceVersion
}

// lists returns the number of lists of a resource's names.
func (f *fixture) lists(resource string) (n int) {
	for _, action := range f.names.Actions() {
		if action.Matches("list", resource) {
			n++
		}
	}
	return n
}

// inform gives the informer the version and pods.
func (f *fixture) inform(version string, pods ...*corev1.Pod) {
	f.Helper()
	for _, pod := range pods {
		if err := f.Informer.GetStore().Add(pod); err != nil {
			f.Fatal(err)
		}
	}
	f.Informer.GetStore().Bookmark(version)
}

// fill gives the cache pods.
func (f *fixture) fill(pods ...*corev1.Pod) {
	f.Helper()
	for _, pod := range pods {
		if err := f.Cache.AddPod(logr.Discard(), pod); err != nil {
			f.Fatal(err)
		}
	}
}

// start begins to wait.
func (f *fixture) start() {
	ctx, stop := context.WithCancel(klog.NewContext(f.Context(), logr.Discard()))
	f.stop = stop
	go func() { f.done <- Wait(ctx, f.Config) }()
}

// expect expects the wait to be over, or not, when some time has passed on the clock of the test's
// synctest bubble.
func (f *fixture) expect(over bool, after time.Duration) {
	f.Helper()
	time.Sleep(after)
	synctest.Wait()
	select {
	case err := <-f.done:
		if err != nil || !over {
			f.Errorf("it ended with %v", err)
		}
	default:
		if over {
			f.Error("it has not ended")
		}
	}
}

func TestAnInformerThatIsUpToDateNeedsNoList(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.inform(version, bound("a"))
		f.fill(bound("a"))
		f.start()
		f.expect(true, 0)
		if lists := f.lists("pods"); lists > 0 {
			t.Errorf("it listed the names of pods %d times", lists)
		}
	})
}

func TestItWaitsForAnInformerThatIsBehind(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.inform("99")
		f.start()
		f.expect(false, patience/2)
		f.inform("101", bound("a"))
		f.expect(false, patience)
		f.fill(bound("a"))
		f.expect(true, poll)
		if lists := f.lists("pods"); lists > 0 {
			t.Errorf("it listed the names of pods %d times", lists)
		}
	})
}

func TestItComparesPodsIfNoneChanges(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.serve(bound("a"), bound("b"))
		f.inform("50", bound("a"), bound("b"))
		f.fill(bound("a"), bound("b"))
		f.start()
		f.expect(true, patience)
	})
}

func TestItWaitsForAPodThatTheCacheLacks(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.serve(bound("a"), bound("b"))
		f.inform("50", bound("a"))
		f.fill(bound("a"))
		f.start()
		f.expect(false, time.Minute)
		f.fill(bound("b"))
		f.expect(true, poll)
	})
}

func TestItDoesNotWaitForAPodThatIsGone(t *testing.T) {
	again := bound("again")
	again.UID = "another"
	finished := bound("finished")
	finished.Status.Phase = corev1.PodSucceeded
	inFixture(t, func(f *fixture) {
		f.serve(again, finished)
		f.names.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			list := &metav1.List{}
			for _, pod := range []*corev1.Pod{bound("gone"), bound("again"), bound("finished")} {
				list.Items = append(list.Items,
					runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta}})
			}
			return true, list, nil
		})
		f.inform("50")
		f.start()
		f.expect(true, patience+recheck+2*poll)
	})
}

func TestItWaitsForAClaimThatTheCacheHasAnOldVersionOf(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.inform(version)
		for _, name := range []string{"a", "b", "c"} {
			f.served.Store(name, "50")
		}
		f.cached.Store("a", "60")
		f.cached.Store("b", "49")
		f.start()
		f.expect(false, time.Minute)
		f.cached.Store("b", "50")
		f.expect(false, time.Minute)
		f.cached.Store("c", "50")
		f.expect(true, poll)
		if lists := f.lists("resourceclaims"); lists != 1 {
			t.Errorf("it listed the names of claims %d times", lists)
		}
	})
}

func TestItDoesNotWaitForAClaimThatIsGone(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.inform(version)
		f.served.Store("a", "50")
		f.start()
		f.expect(false, time.Minute)
		f.served.Delete("a")
		f.expect(true, recheck+2*poll)
	})
}

func TestItDoesNotWaitForClaimsThatTheAPIServerDoesNotServe(t *testing.T) {
	for _, refusal := range []error{
		apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), ""),
		apierrors.NewForbidden(resourcev1.Resource("resourceclaims"), "", errors.New("no")),
	} {
		inFixture(t, func(f *fixture) {
			f.inform(version)
			f.names.PrependReactor("list", "resourceclaims",
				func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
			f.start()
			f.expect(true, poll)
		})
	}
}

func TestItWaitsForTheAPIServer(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.inform(version)
		f.fails = 20
		f.start()
		f.expect(false, 10*time.Second)
		f.expect(true, time.Minute)
	})
}

func TestItEndsWithTheProcess(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.fails = 1 << 30
		f.start()
		f.expect(false, time.Minute)
		f.stop()
		synctest.Wait()
		if err := <-f.done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}
