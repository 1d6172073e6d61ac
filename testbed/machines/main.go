// Command machines plays all kubelets of the testbed, and optionally a volume provisioner.
//
// It runs no containers. Pods that are bound to an existing node become Running, then Succeeded or
// Failed after their run time, and are removed when they are deleted.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the API server")
	listen := flag.String("listen", "127.0.0.1:0", "address of /readyz, which is OK once the caches are synced")
	workers := flag.Int("workers", 32, "pods that are updated in parallel")
	provision := flag.Bool("provision", false, "provision volumes for storage classes of "+provisionerName)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *listen, *workers, *provision); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, kubeconfig, listen string, workers int, provision bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// One client acts for thousands of kubelets, so it has no rate limit.
	config.QPS, config.Burst = -1, -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.UserAgent = "testbed-machines"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}

	// Only bound pods are watched.
	bound := internalinterfaces.TweakListOptionsFunc(func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	})
	podInformers := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(bound), informers.WithTransform(withoutManagedFields))
	others := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(withoutManagedFields))

	kubelets, err := newKubelets(client, podInformers, others)
	if err != nil {
		return err
	}
	var disks *provisioner
	if provision {
		if disks, err = newProvisioner(client, others); err != nil {
			return err
		}
	}
	podInformers.Start(ctx.Done())
	others.Start(ctx.Done())
	server := &http.Server{Addr: listen, ReadHeaderTimeout: 5 * time.Second}
	ready := make(chan struct{})
	server.Handler = http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		select {
		case <-ready:
			answer.WriteHeader(http.StatusOK)
		default:
			answer.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()

	podInformers.WaitForCacheSync(ctx.Done())
	others.WaitForCacheSync(ctx.Done())
	for range workers {
		go kubelets.work(ctx)
	}
	if disks != nil {
		go disks.work(ctx)
	}
	close(ready)
	log.Printf("watching with %d workers on %d processors", workers, runtime.GOMAXPROCS(0))
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return errors.Join(errors.New("cannot listen on "+listen), err)
	}
}

// withoutManagedFields keeps the memory of 10,000 pods small.
func withoutManagedFields(object any) (any, error) {
	if accessor, ok := object.(metav1.Object); ok {
		accessor.SetManagedFields(nil)
	} else if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return tombstone, nil
	}
	return object, nil
}
