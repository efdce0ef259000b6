// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package gardenletetcds returns the Etcds that gardenlet creates, as its own code creates them.
//
// What may not live here: expectations, and knowledge of the operator.
package gardenletetcds

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/Masterminds/semver/v3"
	upstreamv1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	fakesecretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Etcd is an Etcd of gardenlet.
type Etcd struct {
	// Name of the golden file with its rendering.
	Name string
	// Base is the name of the golden file from which it differs little. Empty: none.
	Base string
	// RunsAsRoot is true if its containers run as root.
	RunsAsRoot bool

	namespace string
	values    gardeneretcd.Values
}

// All returns the Etcds.
func All() []Etcd {
	const shoot = "shoot--foo--bar"

	return []Etcd{
		{Name: "gardenlet-main", namespace: shoot, values: mainValues()},
		{Name: "gardenlet-main-ha", Base: "gardenlet-main", namespace: shoot, values: highlyAvailable(mainValues())},
		{Name: "gardenlet-events", namespace: shoot, values: eventsValues()},
		{Name: "gardenlet-events-static-pod", namespace: "kube-system", values: asStaticPod(eventsValues()), RunsAsRoot: true},
	}
}

func mainValues() gardeneretcd.Values {
	return gardeneretcd.Values{
		Role:                    "main",
		Class:                   gardeneretcd.ClassImportant,
		Replicas:                new(int32(1)),
		StorageCapacity:         "25Gi",
		DefragmentationSchedule: new("1 22 * * *"),
		MaintenanceTimeWindow:   gardencorev1beta1.MaintenanceTimeWindow{Begin: "220000+0000", End: "230000+0000"},
		PriorityClassName:       "gardener-system-500",

		RuntimeKubernetesVersion: semver.MustParse("1.34.0"),
		BackupConfig: &gardeneretcd.BackupConfig{
			Provider:                     "aws",
			Container:                    "0a1b2c3d-4e5f",
			SecretRefName:                "etcd-backup",
			Prefix:                       "shoot--foo--bar--6f7a8b9c",
			FullSnapshotSchedule:         "7 22 * * *",
			DeltaSnapshotRetentionPeriod: &metav1.Duration{Duration: 48 * time.Hour},
		},
	}
}

func eventsValues() gardeneretcd.Values {
	values := mainValues()
	values.Role = "events"
	values.Class = gardeneretcd.ClassNormal
	values.StorageCapacity = "10Gi"
	values.BackupConfig = nil

	return values
}

func highlyAvailable(values gardeneretcd.Values) gardeneretcd.Values {
	values.Replicas = new(int32(3))
	values.HighAvailabilityEnabled = true
	values.TopologyAwareRoutingEnabled = true

	return values
}

func asStaticPod(values gardeneretcd.Values) gardeneretcd.Values {
	values.StaticPodConfig = &gardeneretcd.StaticPodConfig{ControlPlaneNodesIPAddresses: []net.IP{net.ParseIP("10.1.2.3")}}

	return values
}

// JSON returns the JSON of the Etcd that gardenlet writes. It takes a second, since gardenlet generates certificates.
func (e Etcd) JSON() ([]byte, error) {
	ctx := context.Background()
	c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
	for _, name := range []string{"ca-etcd", "ca-etcd-peer"} {
		if err := c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.namespace}}); err != nil {
			return nil, fmt.Errorf("creating Secret %s: %w", name, err)
		}
	}
	if err := gardeneretcd.New(logr.Discard(), c, e.namespace, fakesecretsmanager.New(c, e.namespace), e.values).Deploy(ctx); err != nil {
		return nil, fmt.Errorf("creating the Etcd: %w", err)
	}
	written := &upstreamv1alpha1.Etcd{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: e.namespace, Name: "etcd-" + e.values.Role}, written); err != nil {
		return nil, fmt.Errorf("reading the Etcd: %w", err)
	}
	written.SetGroupVersionKind(upstreamv1alpha1.SchemeGroupVersion.WithKind("Etcd"))

	return json.Marshal(written)
}
