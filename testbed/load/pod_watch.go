package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// The API server hangs up on a watch that is behind, as it does in a busy cluster. A moment later
// the watch goes on from where it was, and nothing is missed.
const rewatchAfter = 10 * time.Millisecond

// watchPods calls note for every event of every pod that the selector chooses, in order. It returns
// when the first watch is open; `failed` is told when it cannot go on.
func watchPods(
	ctx context.Context, client kubernetes.Interface, selector string,
	note func(watch.EventType, *v1.Pod), failed func(error),
) error {
	// Nobody can know what comes after "nothing has been seen yet": the list says where to begin.
	list, err := client.CoreV1().Pods(namespace).List(
		ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return err
	}
	for index := range list.Items {
		note(watch.Added, &list.Items[index])
	}
	version := list.ResourceVersion
	open := func() (watch.Interface, error) {
		return client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: selector, ResourceVersion: version, AllowWatchBookmarks: true,
		})
	}
	events, err := open()
	if err != nil {
		return err
	}
	go func() {
		for again := 0; ; again++ {
			for event := range events.ResultChan() {
				pod, ok := event.Object.(*v1.Pod)
				if !ok {
					failed(fmt.Errorf("watching pods: %w", apierrors.FromObject(event.Object)))
					return
				}
				version = pod.ResourceVersion
				if event.Type != watch.Bookmark {
					note(event.Type, pod)
				}
			}
			if ctx.Err() != nil {
				return
			}
			log.Printf("the watch of pods was cut at version %s (%d times before)", version, again)
			time.Sleep(rewatchAfter)
			if events, err = open(); err != nil {
				failed(fmt.Errorf("watching pods: %w", err))
				return
			}
		}
	}()
	return nil
}
