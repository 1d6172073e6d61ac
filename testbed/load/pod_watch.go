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

// The API server closes a watch that is too slow. The watch is opened again at its last resource
// version, so that no event is missed.
const rewatchDelay = 10 * time.Millisecond

// watchPods calls note for every event of the selected pods, in order. It returns when the first
// watch is open, and calls failed when the watch cannot continue.
func watchPods(
	ctx context.Context, client kubernetes.Interface, selector string,
	note func(watch.EventType, *v1.Pod), failed func(error),
) error {
	// The list has the resource version at which the watch begins.
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
			log.Printf("the watch of pods was closed at version %s (%d times before)", version, again)
			time.Sleep(rewatchDelay)
			if events, err = open(); err != nil {
				failed(fmt.Errorf("watching pods: %w", err))
				return
			}
		}
	}()
	return nil
}
