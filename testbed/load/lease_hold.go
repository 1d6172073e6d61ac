package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

const (
	placeholder = "load: not yet"
	// Longer than any run, so that the lease does not expire.
	holdSeconds = 7200
)

// heldLease is a Lease that keeps a scheduler from acting: its replica watches the cluster, and
// begins to schedule when it becomes leader. This works in the same way for every scheduler.
type heldLease struct {
	client kubernetes.Interface
	lease  *coordinationv1.Lease
}

func hold(ctx context.Context, client kubernetes.Interface, name string) (*heldLease, error) {
	space, name, found := strings.Cut(name, "/")
	if !found {
		return nil, fmt.Errorf("lease is %q, want namespace/name", space)
	}
	holder, seconds, now := placeholder, int32(holdSeconds), metav1.NowMicro()
	lease, err := client.CoordinationV1().Leases(space).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds,
			AcquireTime: &now, RenewTime: &now,
		},
	}, metav1.CreateOptions{})
	return &heldLease{client, lease}, err
}

// release frees the lease and waits until a scheduler has acquired it.
func (h *heldLease) release(ctx context.Context) (any, error) {
	leases := h.client.CoordinationV1().Leases(h.lease.Namespace)
	events, err := leases.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", h.lease.Name).String(),
		ResourceVersion: h.lease.ResourceVersion,
	})
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	freed := h.lease.DeepCopy()
	noHolder, second := "", int32(1)
	freed.Spec.HolderIdentity, freed.Spec.LeaseDurationSeconds = &noHolder, &second
	began := sinceStart()
	if _, err := leases.Update(ctx, freed, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	timeout := time.After(60 * time.Second)
	for {
		select {
		case <-timeout:
			return nil, errors.New("no scheduler acquired the lease within 60 s")
		case event, ok := <-events.ResultChan():
			if !ok {
				return nil, errors.New("the watch of the lease has ended")
			}
			lease, ok := event.Object.(*coordinationv1.Lease)
			if !ok || lease.Spec.HolderIdentity == nil {
				continue
			}
			if holder := *lease.Spec.HolderIdentity; holder != "" && holder != placeholder {
				return map[string]any{
					"began": began, "ended": sinceStart(), "holder": holder,
				}, nil
			}
		}
	}
}
