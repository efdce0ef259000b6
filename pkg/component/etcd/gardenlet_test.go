// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"
	upstreamv1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	fakesecretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// gardenletCases are the Etcds that gardenlet creates, as its own code creates them.
func gardenletCases() []goldenCase {
	return []goldenCase{
		{name: "gardenlet-main", input: gardenletInput("shoot--foo--bar", gardenletMain())},
		{name: "gardenlet-main-ha", base: "gardenlet-main", input: gardenletInput("shoot--foo--bar", highlyAvailable(gardenletMain()))},
		{name: "gardenlet-events", input: gardenletInput("shoot--foo--bar", gardenletEvents())},
		{name: "gardenlet-events-static-pod", input: gardenletInput("kube-system", asStaticPod(gardenletEvents())), root: true},
	}
}

func gardenletMain() gardeneretcd.Values {
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

func gardenletEvents() gardeneretcd.Values {
	values := gardenletMain()
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

// gardenletInput is the input of the Etcd that gardenlet writes, read back from the wire. The operator runs as an
// extension, and sets the labels of Gardener's network policies accordingly.
func gardenletInput(namespace string, values gardeneretcd.Values) func() etcd.Input {
	// It takes a second, since certificates are made.
	wire := sync.OnceValue(func() []byte { return gardenletWrites(namespace, values) })

	return func() etcd.Input {
		obj := &druidv1alpha1.Etcd{}
		decoder := json.NewDecoder(bytes.NewReader(wire()))
		decoder.DisallowUnknownFields()
		Expect(decoder.Decode(obj)).To(Succeed())
		obj.UID = fixture.Etcd().UID

		in := inputFor(obj)
		in.Defaults.NamespaceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{
			"gardener.cloud/role":                             "extension",
			"controllerregistration.core.gardener.cloud/name": "gardener-extension-etcd-druid",
		}}}

		return in
	}
}

// gardenletWrites is the JSON of the Etcd that gardenlet writes.
func gardenletWrites(namespace string, values gardeneretcd.Values) []byte {
	ctx := context.Background()
	c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
	for _, name := range []string{"ca-etcd", "ca-etcd-peer"} {
		Expect(c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}})).To(Succeed())
	}
	Expect(gardeneretcd.New(logr.Discard(), c, namespace, fakesecretsmanager.New(c, namespace), values).Deploy(ctx)).To(Succeed())

	written := &upstreamv1alpha1.Etcd{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-" + values.Role}, written)).To(Succeed())
	wire, err := json.Marshal(written)
	Expect(err).NotTo(HaveOccurred())

	return wire
}
