// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The networkpolicies command enforces the NetworkPolicies of the pods on one node with the controller of kube-router. It runs in the network
// namespace of the node. It uses neither the router nor the service proxy of kube-router, because the seed has its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// bridged decides whether packets between two pods of the node pass through iptables.
const bridged = "/proc/sys/net/bridge/bridge-nf-call-iptables"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	node := flag.String("node", "", "name of the node")
	services := flag.String("services", "", "CIDR of the Services")

	flag.Parse()

	if err := run(*kubeconfig, *node, *services); err != nil {
		fmt.Fprintln(os.Stderr, "networkpolicies:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, node, services string) error {
	if err := os.WriteFile(bridged, []byte("1"), 0o644); err != nil {
		return fmt.Errorf("the kernel needs the module br_netfilter: %w", err)
	}

	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}

	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	factory := informers.NewSharedInformerFactory(client, 0)
	pods, policies, namespaces := factory.Core().V1().Pods().Informer(), factory.Networking().V1().NetworkPolicies().Informer(), factory.Core().V1().Namespaces().Informer()
	factory.Start(ctx.Done())

	for kind, isSynced := range factory.WaitForCacheSync(ctx.Done()) {
		if !isSynced {
			return fmt.Errorf("cannot list %s", kind)
		}
	}

	settings := options.NewKubeRouterConfig()
	settings.HostnameOverride, settings.ClusterIPCIDRs, settings.EnableIPv4 = node, []string{services}, true

	iptables, ipsets, err := netpol.NewIPTablesHandlers(settings)
	if err != nil {
		return err
	}

	controller, err := netpol.NewNetworkPolicyController(client, settings, pods, policies, namespaces, &sync.Mutex{}, iptables, ipsets)
	if err != nil {
		return err
	}

	errs := make([]error, 3)
	for i, informer := range []cache.SharedIndexInformer{pods, policies, namespaces} {
		_, errs[i] = informer.AddEventHandler([]cache.ResourceEventHandler{controller.PodEventHandler, controller.NetworkPolicyEventHandler, controller.NamespaceEventHandler}[i])
	}

	if err := errors.Join(errs...); err != nil {
		return err
	}

	// Nothing checks the health of this command, but the controller waits until its heartbeat is read.
	heartbeats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range heartbeats {
		}
	}()

	var running sync.WaitGroup
	running.Add(1)
	controller.Run(heartbeats, ctx.Done(), &running)
	running.Wait()

	return nil
}
