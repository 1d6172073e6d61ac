package main

import (
	"context"
	"encoding/json"
	"log"
	"strconv"
	"sync"
	"time"

	"k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// runSeconds is the annotation with the run time of a pod, after which it succeeds.
	runSeconds = "testbed.afflux.dev/run-seconds"
	// stopSeconds is the annotation with the time that a running pod takes to stop.
	stopSeconds = "testbed.afflux.dev/stop-seconds"
	byNode      = "node"
	// The interval at which a missing volume is looked up again.
	volumeInterval = 200 * time.Millisecond
)

// kubelets updates the pods of all nodes. Its work queue gives a pod to one worker at a time.
type kubelets struct {
	client kubernetes.Interface
	pods   cache.SharedIndexInformer
	nodes  corelisters.NodeLister
	claims corelisters.PersistentVolumeClaimLister
	// "namespace/name" of a pod, or the name of a node.
	queue workqueue.TypedRateLimitingInterface[string]
	// When a pod began to run, by uid. Its status has this time only in whole seconds.
	began sync.Map
}

func newKubelets(
	client kubernetes.Interface, podInformers, others informers.SharedInformerFactory,
) (*kubelets, error) {
	machines := &kubelets{
		client: client,
		pods:   podInformers.Core().V1().Pods().Informer(),
		nodes:  others.Core().V1().Nodes().Lister(),
		claims: others.Core().V1().PersistentVolumeClaims().Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](
				50*time.Millisecond, 5*time.Second)),
	}
	if err := machines.pods.AddIndexers(cache.Indexers{byNode: func(object any) ([]string, error) {
		return []string{object.(*v1.Pod).Spec.NodeName}, nil
	}}); err != nil {
		return nil, err
	}
	_, err := machines.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { machines.enqueue(object) },
		UpdateFunc: func(_, object any) { machines.enqueue(object) },
		DeleteFunc: func(object any) {
			if pod, ok := object.(*v1.Pod); ok {
				machines.began.Delete(pod.UID)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	// A pod that is bound to a missing node starts when the node is created.
	_, err = others.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			waiting, _ := machines.pods.GetIndexer().ByIndex(byNode, object.(*v1.Node).Name)
			for _, pod := range waiting {
				machines.enqueue(pod)
			}
			machines.enqueue(object)
		},
		UpdateFunc: func(_, object any) { machines.enqueue(object) },
	})
	return machines, err
}

func (k *kubelets) enqueue(object any) {
	if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
		k.queue.Add(key)
	}
}

func (k *kubelets) work(ctx context.Context) {
	go func() { <-ctx.Done(); k.queue.ShutDown() }()
	for {
		key, closing := k.queue.Get()
		if closing {
			return
		}
		again, err := k.update(ctx, key)
		switch {
		case err == nil || apierrors.IsNotFound(err):
			k.queue.Forget(key)
		default:
			if !apierrors.IsConflict(err) {
				log.Printf("%s: %v", key, err)
			}
			k.queue.AddRateLimited(key)
		}
		if err == nil && again > 0 {
			k.queue.AddAfter(key, again)
		}
		k.queue.Done(key)
	}
}

// update returns after what time it is to be called again for this pod or node (0: never).
func (k *kubelets) update(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err == nil && namespace == "" {
		return 0, k.allocate(ctx, name)
	}
	return k.move(ctx, key)
}

// move updates a pod by one step, and returns after what time it is to be called again (0: never).
func (k *kubelets) move(ctx context.Context, key string) (time.Duration, error) {
	object, exists, err := k.pods.GetStore().GetByKey(key)
	if err != nil || !exists {
		return 0, err
	}
	pod := object.(*v1.Pod)
	node, err := k.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		return 0, nil // without a machine the pod waits, or is garbage-collected
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return k.remove(ctx, pod)
	case pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed:
		return 0, nil
	case pod.Status.Phase == v1.PodRunning:
		return k.endWhenDue(ctx, pod)
	case !k.mounted(pod):
		return volumeInterval, nil
	default:
		return k.start(ctx, pod, node)
	}
}

// remove completes a deletion, after the time that the containers take to stop.
func (k *kubelets) remove(ctx context.Context, pod *v1.Pod) (time.Duration, error) {
	if pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0 {
		return 0, nil // already done; only finalizers are left
	}
	if left := time.Until(stopped(pod)); left > 0 {
		return left, nil
	}
	now := int64(0)
	return 0, k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
}

// mounted returns whether every claim of the pod has its volume.
func (k *kubelets) mounted(pod *v1.Pod) bool {
	for _, volume := range pod.Spec.Volumes {
		name := ""
		switch {
		case volume.PersistentVolumeClaim != nil:
			name = volume.PersistentVolumeClaim.ClaimName
		case volume.Ephemeral != nil:
			name = pod.Name + "-" + volume.Name
		default:
			continue
		}
		claim, err := k.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil || claim.Status.Phase != v1.ClaimBound {
			return false
		}
	}
	return true
}

func (k *kubelets) start(
	ctx context.Context, pod *v1.Pod, node *v1.Node,
) (time.Duration, error) {
	now := time.Now()
	if err := k.patch(ctx, pod, running(pod, node, metav1.NewTime(now))); err != nil {
		return 0, err
	}
	k.began.Store(pod.UID, now)
	due, _, limited := k.due(pod, now)
	if !limited {
		return 0, nil
	}
	return time.Until(due), nil
}

// endWhenDue ends a pod whose run time or deadline is over.
func (k *kubelets) endWhenDue(ctx context.Context, pod *v1.Pod) (time.Duration, error) {
	began := pod.CreationTimestamp.Time
	if stored, ok := k.began.Load(pod.UID); ok {
		began = stored.(time.Time)
	} else if pod.Status.StartTime != nil {
		began = pod.Status.StartTime.Time
	}
	due, late, limited := k.due(pod, began)
	if !limited {
		return 0, nil
	}
	if left := time.Until(due); left > 0 {
		return left, nil
	}
	return 0, k.patch(ctx, pod, ended(pod, metav1.Now(), late))
}

// due returns when a pod ends, and whether its deadline ends it.
func (k *kubelets) due(pod *v1.Pod, began time.Time) (due time.Time, late, limited bool) {
	if run, ok := annotated(pod, runSeconds); ok {
		due, limited = began.Add(run), true
	}
	if pod.Spec.ActiveDeadlineSeconds != nil {
		deadline := began.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
		if !limited || deadline.Before(due) {
			due, late, limited = deadline, true, true
		}
	}
	return due, late, limited
}

// stopped returns when the containers of a deleted pod have stopped. They stop at once, unless a
// container has a preStop hook that sleeps or the annotation stopSeconds says otherwise, and at the
// end of the grace period in any case.
func stopped(pod *v1.Pod) time.Time {
	end := pod.DeletionTimestamp.Time // of the grace period
	asked := end.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	if pod.Status.Phase != v1.PodRunning {
		return asked
	}
	takes, ok := annotated(pod, stopSeconds)
	if !ok {
		for i := range pod.Spec.Containers {
			hooks := pod.Spec.Containers[i].Lifecycle
			if hooks != nil && hooks.PreStop != nil && hooks.PreStop.Sleep != nil {
				takes = max(takes, time.Duration(hooks.PreStop.Sleep.Seconds)*time.Second)
			}
		}
	}
	if due := asked.Add(takes); due.Before(end) {
		return due
	}
	return end
}

// annotated returns the time that an annotation of a pod states in seconds, and whether it does.
func annotated(pod *v1.Pod, name string) (time.Duration, bool) {
	text, ok := pod.Annotations[name]
	if !ok {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0 {
		log.Printf("pod %s/%s: annotation %s is %q, want seconds, a number of at least 0",
			pod.Namespace, pod.Name, name, text)
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

func (k *kubelets) patch(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   status,
	})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(
		ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}
