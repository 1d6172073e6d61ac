package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	controller = "testbed-load"
	// More pods than any plan has, so that the watch never waits for a worker.
	maxWaiting = 1 << 17
)

// binding has the settings of the null binder.
type binding struct {
	lease   string
	workers int
	events  bool
}

// bindAll binds every pod without a node to the machine that the plan has for it. It makes no
// decisions and has no queue.
func bindAll(ctx context.Context, client kubernetes.Interface, plan *plan, how binding) error {
	nodes := map[string]string{}
	for _, set := range plan.Sets {
		for _, pod := range set.Pods {
			nodes[pod.Name] = pod.Node
		}
	}
	waiting, bound := make(chan *v1.Pod, maxWaiting), make(chan *v1.Pod, maxWaiting)
	failed := make(chan error, 1)
	// Pods are bound in the order in which they appear.
	err := watchPods(ctx, client, "spec.nodeName=", func(kind watch.EventType, pod *v1.Pod) {
		if kind == watch.Added {
			waiting <- pod
		}
	}, func(err error) { failed <- err })
	if err != nil {
		return err
	}
	work := func(ctx context.Context) {
		for range how.workers {
			go bindSome(ctx, client, nodes, waiting, bound)
		}
		for range max(1, how.workers/4) {
			go postSome(ctx, client, nodes, bound, how.events)
		}
	}
	log.Printf("watching; %d workers", how.workers)
	if how.lease == "" {
		work(ctx)
		return <-failed
	}
	go lead(ctx, client, how.lease, work)
	return <-failed
}

func bindSome(
	ctx context.Context, client kubernetes.Interface, nodes map[string]string,
	waiting <-chan *v1.Pod, bound chan<- *v1.Pod,
) {
	for {
		select {
		case <-ctx.Done():
			return
		case pod := <-waiting:
			node := nodes[pod.Name]
			if node == "" {
				continue
			}
			err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
				Target:     v1.ObjectReference{Kind: "Node", Name: node},
			}, metav1.CreateOptions{})
			if err != nil {
				log.Printf("pod %s: %v", pod.Name, err)
				continue
			}
			bound <- pod
		}
	}
}

// postSome posts for every bound pod the event that schedulers post, if `wanted` is set.
func postSome(
	ctx context.Context, client kubernetes.Interface, nodes map[string]string,
	bound <-chan *v1.Pod, wanted bool,
) {
	for {
		select {
		case <-ctx.Done():
			return
		case pod := <-bound:
			if !wanted {
				continue
			}
			now := metav1.NowMicro()
			_, err := client.EventsV1().Events(pod.Namespace).Create(ctx, &eventsv1.Event{
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("%s.%x", pod.Name, now.UnixNano()), Namespace: pod.Namespace,
				},
				EventTime:           now,
				ReportingController: controller,
				ReportingInstance:   controller,
				Type:                v1.EventTypeNormal,
				Reason:              "Scheduled",
				Action:              "Binding",
				Note: fmt.Sprintf("Successfully assigned %s/%s to %s",
					pod.Namespace, pod.Name, nodes[pod.Name]),
				Regarding: v1.ObjectReference{
					Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name,
					UID: pod.UID, ResourceVersion: pod.ResourceVersion,
				},
			}, metav1.CreateOptions{})
			if err != nil {
				log.Printf("event of pod %s: %v", pod.Name, err)
			}
		}
	}
}

// lead waits for the lease and then works. Its times are long, so that a busy machine does not lose
// the lease.
func lead(
	ctx context.Context, client kubernetes.Interface, name string, work func(context.Context),
) {
	space, name, _ := strings.Cut(name, "/")
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: space, Name: name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: controller},
		},
		LeaseDuration: 60 * time.Second,
		RenewDeadline: 45 * time.Second,
		RetryPeriod:   2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: work,
			OnStoppedLeading: func() {
				if ctx.Err() == nil {
					log.Print("the lease was lost")
					os.Exit(1)
				}
			},
		},
	})
}
