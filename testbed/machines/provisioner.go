package main

import (
	"context"
	"log"
	"time"

	"k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	provisionerName = "testbed.afflux.dev/disk"
	driverName      = "disk.testbed.afflux.dev" // a driver name is a domain without a path
	selectedNode    = "volume.kubernetes.io/selected-node"
	requestedFrom   = "volume.kubernetes.io/storage-provisioner"
	provisionedBy   = "pv.kubernetes.io/provisioned-by"
)

// provisioner creates a volume for a claim when its node is chosen, reachable from that node only.
type provisioner struct {
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	nodes   corelisters.NodeLister
	classes storagelisters.StorageClassLister
	// "namespace/name" of a claim, or the name of a volume.
	queue workqueue.TypedRateLimitingInterface[string]
}

func newProvisioner(
	client kubernetes.Interface, factory informers.SharedInformerFactory,
) (*provisioner, error) {
	disks := &provisioner{
		client:  client,
		claims:  factory.Core().V1().PersistentVolumeClaims().Lister(),
		volumes: factory.Core().V1().PersistentVolumes().Lister(),
		nodes:   factory.Core().V1().Nodes().Lister(),
		classes: factory.Storage().V1().StorageClasses().Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](
				50*time.Millisecond, 5*time.Second)),
	}
	enqueue := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			disks.queue.Add(key)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	}
	_, err := factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(handler)
	if err != nil {
		return nil, err
	}
	_, err = factory.Core().V1().PersistentVolumes().Informer().AddEventHandler(handler)
	return disks, err
}

func (p *provisioner) work(ctx context.Context) {
	go func() { <-ctx.Done(); p.queue.ShutDown() }()
	for {
		key, closing := p.queue.Get()
		if closing {
			return
		}
		namespace, name, err := cache.SplitMetaNamespaceKey(key)
		if err == nil && namespace != "" {
			err = p.provide(ctx, namespace, name)
		} else if err == nil {
			err = p.reclaim(ctx, name)
		}
		if err == nil || apierrors.IsNotFound(err) {
			p.queue.Forget(key)
		} else {
			log.Printf("%s: %v", key, err)
			p.queue.AddRateLimited(key)
		}
		p.queue.Done(key)
	}
}

// provide creates the volume of a claim, unless it has one or waits for its node.
func (p *provisioner) provide(ctx context.Context, namespace, name string) error {
	claim, err := p.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return err
	}
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil ||
		claim.Annotations[requestedFrom] != provisionerName || claim.Spec.StorageClassName == nil {
		return nil
	}
	class, err := p.classes.Get(*claim.Spec.StorageClassName)
	if err != nil {
		return err
	}
	node := claim.Annotations[selectedNode]
	late := class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if late && node == "" {
		return nil
	}
	affinity, err := p.reachableFrom(node)
	if err != nil {
		return err
	}
	_, err = p.client.CoreV1().PersistentVolumes().Create(
		ctx, volumeFor(claim, class, affinity), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// reachableFrom returns a node affinity to this machine, or none without a machine.
func (p *provisioner) reachableFrom(node string) (*v1.VolumeNodeAffinity, error) {
	if node == "" {
		return nil, nil
	}
	machine, err := p.nodes.Get(node)
	if err != nil {
		return nil, err
	}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{
				Key:      v1.LabelHostname,
				Operator: v1.NodeSelectorOpIn,
				Values:   []string{machine.Labels[v1.LabelHostname]},
			}},
		}},
	}}, nil
}

func volumeFor(
	claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, affinity *v1.VolumeNodeAffinity,
) *v1.PersistentVolume {
	reclaim := v1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-" + string(claim.UID),
			Annotations: map[string]string{provisionedBy: provisionerName},
		},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{
				v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage],
			},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: reclaim,
			NodeAffinity:                  affinity,
			ClaimRef: &v1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: v1.PersistentVolumeSource{
				CSI: &v1.CSIPersistentVolumeSource{
					Driver: driverName, VolumeHandle: string(claim.UID),
				},
			},
		},
	}
}

// reclaim deletes a volume of this provisioner whose claim is gone.
func (p *provisioner) reclaim(ctx context.Context, name string) error {
	volume, err := p.volumes.Get(name)
	if err != nil {
		return err
	}
	if volume.Status.Phase != v1.VolumeReleased || volume.DeletionTimestamp != nil ||
		volume.Annotations[provisionedBy] != provisionerName ||
		volume.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
		return nil
	}
	return p.client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &volume.UID},
	})
}
