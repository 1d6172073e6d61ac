package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	never        = -1.0
	pollEvery    = 50 * time.Millisecond
	progressEach = 500 * time.Millisecond
)

// sighting has the times of one pod in the watch, in seconds since the program started.
type sighting struct {
	appeared float64
	bound    float64
	node     string
	gone     bool
}

// observer records when the pods of a plan appear, are bound and are gone, from one watch.
type observer struct {
	mutex sync.Mutex
	// All pods of the plan by name, and the pods of each set in their order.
	pods   map[string]*sighting
	sets   map[string][]*sighting
	failed error
}

func observe(ctx context.Context, client kubernetes.Interface, plan *plan) (*observer, error) {
	seen := &observer{pods: map[string]*sighting{}, sets: map[string][]*sighting{}}
	for name, set := range plan.Sets {
		for _, pod := range set.Pods {
			noted := &sighting{appeared: never, bound: never}
			seen.pods[pod.Name] = noted
			seen.sets[name] = append(seen.sets[name], noted)
		}
	}
	return seen, watchPods(ctx, client, "", seen.note, seen.fail)
}

func (o *observer) note(kind watch.EventType, pod *v1.Pod) {
	now := sinceStart()
	o.mutex.Lock()
	defer o.mutex.Unlock()
	noted := o.pods[pod.Name]
	if noted == nil {
		return
	}
	if noted.appeared == never {
		noted.appeared = now
	}
	if noted.bound == never && pod.Spec.NodeName != "" {
		noted.bound, noted.node = now, pod.Spec.NodeName
	}
	noted.gone = kind == watch.Deleted
}

func (o *observer) fail(err error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.failed == nil {
		o.failed = err
	}
}

// counts returns how many pods of a set have appeared, are bound and are gone, and the time of the
// last binding.
func (o *observer) counts(set *podSet) (appeared, bound, gone int, last float64, err error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	last = never
	for _, noted := range o.sets[set.name] {
		if noted.appeared != never {
			appeared++
		}
		if noted.bound != never {
			bound++
			last = max(last, noted.bound)
		}
		if noted.gone {
			gone++
		}
	}
	return appeared, bound, gone, last, o.failed
}

// await returns when every pod of the set is bound, or when none was bound for quietSeconds.
func (o *observer) await(ctx context.Context, set *podSet, quietSeconds float64) error {
	began := sinceStart()
	return poll(ctx, func() (bool, error) {
		_, bound, _, last, err := o.counts(set)
		quiet := sinceStart() - max(began, last)
		return bound == len(set.Pods) || quiet >= quietSeconds, err
	})
}

func (o *observer) awaitGone(ctx context.Context, set *podSet) error {
	return poll(ctx, func() (bool, error) {
		_, _, gone, _, err := o.counts(set)
		return gone == len(set.Pods), err
	})
}

// tell prints the progress of a set at intervals, until the returned function is called.
func (o *observer) tell(ctx context.Context, set *podSet, progress *json.Encoder) func() {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(progressEach):
			}
			appeared, bound, _, _, _ := o.counts(set)
			_ = progress.Encode(map[string]any{
				"progress": set.name, "appeared": appeared, "bound": bound, "of": len(set.Pods),
			})
		}
	}()
	return func() { cancel(); <-done }
}

// report returns the times and nodes of a set, as columns in the order of the plan.
func (o *observer) report(set *podSet) any {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	appeared, bound := []float64{}, []float64{}
	nodes := []string{}
	for _, noted := range o.sets[set.name] {
		appeared = append(appeared, noted.appeared)
		bound = append(bound, noted.bound)
		nodes = append(nodes, noted.node)
	}
	return map[string]any{"appeared": appeared, "bound": bound, "nodes": nodes}
}

func poll(ctx context.Context, happened func() (bool, error)) error {
	for {
		if done, err := happened(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
