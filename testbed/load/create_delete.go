package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	namespace   = "default"
	nodeWorkers = 16
)

func createNodes(ctx context.Context, client kubernetes.Interface, plan *plan) error {
	return each(ctx, nodeWorkers, len(plan.Nodes), func(ctx context.Context, index int) error {
		_, err := client.CoreV1().Nodes().Create(ctx, &plan.Nodes[index], metav1.CreateOptions{})
		return err
	})
}

func createPods(
	ctx context.Context, client kubernetes.Interface, plan *plan, set *podSet,
) error {
	began := time.Now()
	return each(ctx, set.Workers, len(set.Pods), func(ctx context.Context, index int) error {
		if set.Rate > 0 {
			due := began.Add(time.Duration(float64(index) / set.Rate * float64(time.Second)))
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		pod := plan.manifest(set.Pods[index], set.Fixed)
		_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// deletePods deletes pods with grace period 0: there is no kubelet.
func deletePods(
	ctx context.Context, client kubernetes.Interface, seen *observer, set *podSet,
) error {
	now := int64(0)
	err := each(ctx, set.Workers, len(set.Pods), func(ctx context.Context, index int) error {
		return client.CoreV1().Pods(namespace).Delete(
			ctx, set.Pods[index].Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	if err != nil {
		return err
	}
	return seen.awaitGone(ctx, set)
}

// each calls work for 0 to count-1 in order, `workers` at a time, until the first error.
func each(
	ctx context.Context, workers, count int, work func(context.Context, int) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	next := make(chan int)
	group.Go(func() error {
		defer close(next)
		for index := range count {
			select {
			case next <- index:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range workers {
		group.Go(func() error {
			for index := range next {
				if err := work(ctx, index); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
