// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"os"
	"sync"

	extensionscmdcontroller "github.com/gardener/gardener/extensions/pkg/controller/cmd"
	extensionsheartbeatcmd "github.com/gardener/gardener/extensions/pkg/controller/heartbeat/cmd"
	extensionswebhookcmd "github.com/gardener/gardener/extensions/pkg/webhook/cmd"
	"github.com/spf13/pflag"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/resourcemanager"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

// Name is the name of the operator: of its chart, its ControllerRegistration and the holder of its heartbeat.
const Name = "gardener-extension-etcd-druid"

// Options are the flags and the configuration file. After Complete, Config is complete, defaulted and valid. A flag that a
// user sets explicitly has precedence over the file.
type Options struct {
	// Config is what the operator runs with.
	Config *configv1alpha1.OperatorConfiguration

	rest        *extensionscmdcontroller.RESTOptions
	manager     *extensionscmdcontroller.ManagerOptions
	webhook     *extensionswebhookcmd.ServerOptions
	heartbeat   *extensionsheartbeatcmd.Options
	etcd        *extensionscmdcontroller.ControllerOptions
	care        *extensionscmdcontroller.ControllerOptions
	compaction  *extensionscmdcontroller.ControllerOptions
	opsTask     *extensionscmdcontroller.ControllerOptions
	controllers *extensionscmdcontroller.SwitchOptions

	configFile string
	// flagValues are meaningful where their flag was given.
	flagValues flagValues
	flags      *pflag.FlagSet

	observer     *observer.Observer
	locksOnce    sync.Once
	locks        *calls.ClusterLocks
	renderings   resourcemanager.Renderings
	storesOnce   sync.Once
	stores       *calls.StoreReservations
	versions     *calls.EtcdVersions
	observerErr  error
	observerOnce sync.Once
}

// NewOptions returns options without any flag set. The namespace of the pod is the default namespace of the election and
// the heartbeat.
func NewOptions() *Options {
	namespace := ownNamespace()
	o := &Options{
		rest:       &extensionscmdcontroller.RESTOptions{},
		manager:    &extensionscmdcontroller.ManagerOptions{LeaderElection: true, LeaderElectionNamespace: namespace},
		webhook:    &extensionswebhookcmd.ServerOptions{Namespace: namespace, ServicePort: 443},
		heartbeat:  &extensionsheartbeatcmd.Options{ExtensionName: Name, Namespace: namespace, RenewIntervalSeconds: 30},
		etcd:       &extensionscmdcontroller.ControllerOptions{MaxConcurrentReconciles: 3},
		care:       &extensionscmdcontroller.ControllerOptions{MaxConcurrentReconciles: 15},
		compaction: &extensionscmdcontroller.ControllerOptions{MaxConcurrentReconciles: 3},
		opsTask:    &extensionscmdcontroller.ControllerOptions{MaxConcurrentReconciles: 3},
		versions:   calls.NewEtcdVersions(),
	}
	o.controllers = extensionscmdcontroller.NewSwitchOptions(o.switches()...)
	return o
}

// AddFlags adds all flags, those of etcd-druid that are deprecated included.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.flags = fs
	o.aggregate().AddFlags(fs)
	fs.StringVar(&o.configFile, "config", "", "Path of the configuration file, "+configv1alpha1.SchemeGroupVersion.String()+" OperatorConfiguration. Flags that are given win over it.")
	o.flagValues.addFlags(fs)
}

// Complete reads the configuration file, lets the given flags win, and validates the outcome.
func (o *Options) Complete() error {
	config, err := readConfig(o.configFile)
	if err != nil {
		return err
	}
	if err := o.applyFlags(config); err != nil {
		return err
	}
	if errs := validation.ValidateOperatorConfiguration(config); len(errs) > 0 {
		return fmt.Errorf("invalid configuration: %w", errs.ToAggregate())
	}

	o.Config = config
	o.applyConfig()
	return o.aggregate().Complete()
}

// Validate returns what is missing to run.
func (o *Options) Validate() error {
	if o.heartbeat.Namespace == "" && o.isEnabled(heartbeatController) {
		return fmt.Errorf("the namespace of the heartbeat is not known: set --heartbeat-namespace or LEADER_ELECTION_NAMESPACE, or switch it off with --disable-controllers=%s", heartbeatController)
	}
	if o.Config.ResourceManager.Embedded && !o.isEnabled(etcd.ControllerName) {
		return fmt.Errorf("resourceManager.embedded needs the controller %s, because the embedded resource manager applies only what this controller has rendered: enable the controller, or disable resourceManager.embedded", etcd.ControllerName)
	}
	if o.registersWebhooks() && o.webhook.Namespace == "" {
		return fmt.Errorf("the namespace of the Service of the webhooks and certificates is not known: set --webhook-config-namespace or LEADER_ELECTION_NAMESPACE, or switch server.webhooks.managedCertificate off")
	}
	return o.heartbeat.Validate()
}

func (o *Options) aggregate() extensionscmdcontroller.Option {
	aggregator := extensionscmdcontroller.NewOptionAggregator(
		o.rest,
		o.manager,
		o.webhook,
		extensionscmdcontroller.PrefixOption("heartbeat-", o.heartbeat),
		extensionscmdcontroller.PrefixOption("etcd-", o.etcd),
		extensionscmdcontroller.PrefixOption("care-", o.care),
		extensionscmdcontroller.PrefixOption("compaction-", o.compaction),
		extensionscmdcontroller.PrefixOption("opstask-", o.opsTask),
		o.controllers,
	)
	return &aggregator
}

// readConfig returns the configuration of a file. Without a file it returns the configuration of a deployment that uses only
// flags. Such a deployment always copies backups.
func readConfig(path string) (*configv1alpha1.OperatorConfiguration, error) {
	if path == "" {
		config := &configv1alpha1.OperatorConfiguration{}
		configv1alpha1.SetDefaults(config)
		config.Controllers.EtcdCopyBackupsTask.Enabled = true
		return config, nil
	}

	data, err := os.ReadFile(path) // #nosec G304 -- the path is the operator's own flag
	if err != nil {
		return nil, fmt.Errorf("reading --config: %w", err)
	}
	config, err := configv1alpha1.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("reading --config %s: %w", path, err)
	}
	return config, nil
}

// applyConfig sets the library's options to what file and flags came to.
func (o *Options) applyConfig() {
	c := o.Config
	o.manager.LeaderElection = *c.LeaderElection.Enabled
	o.manager.LeaderElectionID = c.LeaderElection.ResourceName
	if c.LeaderElection.ResourceNamespace != "" {
		o.manager.LeaderElectionNamespace = c.LeaderElection.ResourceNamespace
	}
	if account := c.Webhooks.EtcdComponentProtection.ServiceAccountInfo; account != nil {
		// Only the configuration of etcd-druid by gardenlet contains it, as long as the pod has no token.
		o.manager.LeaderElectionNamespace = cmp.Or(o.manager.LeaderElectionNamespace, account.Namespace)
		o.heartbeat.Namespace = cmp.Or(o.heartbeat.Namespace, account.Namespace)
	}
	o.manager.WebhookServerHost = c.Server.Webhooks.BindAddress
	o.manager.WebhookServerPort = c.Server.Webhooks.Port
	o.manager.WebhookCertDir = c.Server.Webhooks.ServerCertDir
	o.manager.MetricsBindAddress = address(*c.Server.Metrics)
	o.manager.HealthBindAddress = address(*c.Server.HealthProbes)
	o.manager.LogLevel = string(c.Logging.LogLevel)
	o.manager.LogFormat = string(c.Logging.LogFormat)
	o.etcd.MaxConcurrentReconciles = *c.Controllers.Etcd.ConcurrentSyncs
	o.compaction.MaxConcurrentReconciles = *c.Controllers.Compaction.ConcurrentSyncs
	o.opsTask.MaxConcurrentReconciles = *c.Controllers.EtcdOpsTask.ConcurrentSyncs
}

// isEnabled says whether a controller runs, by the rules of the library's switches.
func (o *Options) isEnabled(name string) bool {
	for _, disabled := range o.controllers.Disabled {
		if disabled == name {
			return false
		}
	}
	for _, enabled := range o.controllers.Enabled {
		if enabled == name {
			return true
		}
	}
	return len(o.controllers.Enabled) == 0
}
