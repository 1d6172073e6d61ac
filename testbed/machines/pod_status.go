package main

import (
	"hash/fnv"
	"net/netip"

	"k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// running is the status of a pod whose containers have all started.
func running(pod *v1.Pod, node *v1.Node, now metav1.Time) v1.PodStatus {
	address := addressOf(pod)
	status := v1.PodStatus{
		Phase:     v1.PodRunning,
		StartTime: &now,
		PodIP:     address,
		PodIPs:    []v1.PodIP{{IP: address}},
		Conditions: []v1.PodCondition{
			condition(v1.PodReadyToStartContainers, v1.ConditionTrue, "", now),
			condition(v1.PodInitialized, v1.ConditionTrue, "", now),
			condition(v1.PodReady, v1.ConditionTrue, "", now),
			condition(v1.ContainersReady, v1.ConditionTrue, "", now),
		},
	}
	if !scheduled(pod) {
		// A pod that was created with its node has no binding, which would have stated this.
		status.Conditions = append(
			status.Conditions, condition(v1.PodScheduled, v1.ConditionTrue, "", now))
	}
	for _, address := range node.Status.Addresses {
		if address.Type == v1.NodeInternalIP {
			status.HostIP = address.Address
			status.HostIPs = []v1.HostIP{{IP: address.Address}}
		}
	}
	up := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		state := up
		if !sidecar(container) {
			state = completed(now, now)
		}
		status.InitContainerStatuses = append(
			status.InitContainerStatuses, containerStatus(pod, container, state))
	}
	for i := range pod.Spec.Containers {
		status.ContainerStatuses = append(
			status.ContainerStatuses, containerStatus(pod, &pod.Spec.Containers[i], up))
	}
	return status
}

// ended is the status of a pod that has completed, or was stopped at its deadline.
func ended(pod *v1.Pod, now metav1.Time, late bool) v1.PodStatus {
	phase, reason := v1.PodSucceeded, "PodCompleted"
	status := v1.PodStatus{}
	began := now
	if pod.Status.StartTime != nil {
		began = *pod.Status.StartTime
	}
	state := completed(began, now)
	if late {
		phase, reason = v1.PodFailed, "PodFailed"
		status.Reason = "DeadlineExceeded"
		status.Message = "Pod was active on the node longer than the specified deadline"
		state.Terminated.ExitCode, state.Terminated.Reason = 137, "Error"
	}
	status.Phase = phase
	status.Conditions = []v1.PodCondition{
		condition(v1.PodReadyToStartContainers, v1.ConditionFalse, "", now),
		condition(v1.PodReady, v1.ConditionFalse, reason, now),
		condition(v1.ContainersReady, v1.ConditionFalse, reason, now),
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		over := completed(began, began)
		if sidecar(container) {
			over = state
		}
		status.InitContainerStatuses = append(
			status.InitContainerStatuses, containerStatus(pod, container, over))
	}
	for i := range pod.Spec.Containers {
		status.ContainerStatuses = append(
			status.ContainerStatuses, containerStatus(pod, &pod.Spec.Containers[i], state))
	}
	return status
}

func scheduled(pod *v1.Pod) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1.PodScheduled {
			return pod.Status.Conditions[i].Status == v1.ConditionTrue
		}
	}
	return false
}

func sidecar(container *v1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func condition(
	kind v1.PodConditionType, status v1.ConditionStatus, reason string, now metav1.Time,
) v1.PodCondition {
	return v1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: now}
}

func completed(began, now metav1.Time) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: began, FinishedAt: now,
	}}
}

func containerStatus(
	pod *v1.Pod, container *v1.Container, state v1.ContainerState,
) v1.ContainerStatus {
	started := state.Running != nil
	return v1.ContainerStatus{
		Name:        container.Name,
		State:       state,
		Ready:       started,
		Started:     &started,
		Image:       container.Image,
		ImageID:     "testbed://" + container.Image,
		ContainerID: "testbed://" + string(pod.UID) + "/" + container.Name,
	}
}

// addressOf returns the address of a pod in 10.128.0.0/9, computed from its uid.
func addressOf(pod *v1.Pod) string {
	sum := fnv.New32a()
	sum.Write([]byte(pod.UID))
	bits := sum.Sum32()
	return netip.AddrFrom4([4]byte{10, 128 | byte(bits>>16), byte(bits >> 8), byte(bits)}).String()
}
