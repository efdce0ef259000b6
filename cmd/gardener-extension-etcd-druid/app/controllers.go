// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	extensionscmdcontroller "github.com/gardener/gardener/extensions/pkg/controller/cmd"
	"github.com/gardener/gardener/extensions/pkg/controller/heartbeat"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// heartbeatController is the name by which --disable-controllers knows the controller that renews the heartbeat.
const heartbeatController = heartbeat.ControllerName

// switches are the controllers that can be switched on and off by name. They are called after Complete.
func (o *Options) switches() []extensionscmdcontroller.NameToAddToManagerFunc {
	return []extensionscmdcontroller.NameToAddToManagerFunc{
		extensionscmdcontroller.Switch(heartbeatController, o.addHeartbeat),
	}
}

func (o *Options) addHeartbeat(ctx context.Context, mgr manager.Manager) error {
	o.heartbeat.Completed().Apply(&heartbeat.DefaultAddOptions)
	return heartbeat.AddToManager(ctx, mgr)
}
