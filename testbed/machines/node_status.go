package main

import (
	"context"
	"encoding/json"
	"strings"

	"k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// allocate makes an extended resource allocatable that was added to the capacity of a node.
func (k *kubelets) allocate(ctx context.Context, name string) error {
	node, err := k.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	added := unallocated(node)
	if len(added) == 0 {
		return nil
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"allocatable": added}})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Nodes().Patch(
		ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

// unallocated returns the extended resources of which a node states the capacity only. The others
// are as the node was created.
func unallocated(node *v1.Node) v1.ResourceList {
	added := v1.ResourceList{}
	for resource, amount := range node.Status.Capacity {
		_, known := node.Status.Allocatable[resource]
		if !known && strings.Contains(string(resource), "/") {
			added[resource] = amount
		}
	}
	return added
}
