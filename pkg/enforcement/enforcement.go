// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package enforcement determines whether the cluster enforces NetworkPolicies. Each API server accepts them. Without a network plugin that enforces
// them, they have no effect, and nothing else shows this.
//
// What may not live here: the NetworkPolicies.
package enforcement

import (
	"context"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// dialTimeout is how long a connection may take. A network plugin drops the packets of a connection that it rejects.
const dialTimeout = 3 * time.Second

// isReachable is true if a TCP connection to the address succeeds. It sends nothing.
func isReachable(ctx context.Context, address string) bool {
	connection, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = connection.Close()

	return true
}

// Verify returns nil if a connection to the allowed address succeeds, and then one to the rejected address does not. It repeats each of them until the
// timeout. A new pod has no network for a moment, and a network plugin applies NetworkPolicies with a delay.
func Verify(ctx context.Context, allowed, rejected string, timeout time.Duration) error {
	if err := await(ctx, allowed, true, timeout); err != nil {
		return fmt.Errorf("connecting to %s, which the NetworkPolicies allow: no connection for %s", allowed, timeout)
	}
	if err := await(ctx, rejected, false, timeout); err != nil {
		return fmt.Errorf("connecting to %s, which the NetworkPolicies reject: the connection succeeds for %s. The network plugin of the cluster does not "+
			"enforce NetworkPolicies, or the value networkPolicies.monitoring allows this pod", rejected, timeout)
	}

	return nil
}

// await waits until the address is reachable, or is not.
func await(ctx context.Context, address string, wanted bool, timeout time.Duration) error {
	return wait.PollUntilContextTimeout(ctx, time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		return isReachable(ctx, address) == wanted, nil
	})
}
