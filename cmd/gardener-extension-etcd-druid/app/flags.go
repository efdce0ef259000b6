// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
)

// flagValues hold what was given on the command line and has no option of the extension library. Most are flags of
// etcd-druid from before it had a configuration file.
type flagValues struct {
	embeddedResourceManager bool
	enableProfiling         bool

	featureGates                   map[string]string
	metricsPort                    int
	webhookBindAddress             string
	webhookPort                    int
	webhookCertDir                 string
	leaderElection                 bool
	leaderElectionResourceLock     string
	etcdWorkers                    int
	autoReconcile                  bool
	statusSyncPeriod               time.Duration
	memberNotReadyThreshold        time.Duration
	memberUnknownThreshold         time.Duration
	compaction                     bool
	compactionWorkers              int
	eventsThreshold                int64
	activeDeadlineDuration         time.Duration
	metricsScrapeWaitDuration      time.Duration
	copyBackups                    bool
	copyBackupsWorkers             int
	opsTaskWorkers                 int
	opsTaskRequeueInterval         time.Duration
	secretWorkers                  int
	componentProtection            bool
	reconcilerServiceAccount       string
	protectionExemptServiceAccount []string
	ignored                        bool
}

func (v *flagValues) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&v.embeddedResourceManager, "embedded-resource-manager", false, "Run gardener-resource-manager's controllers for the class seed in this process, for clusters without a gardener-resource-manager.")
	fs.BoolVar(&v.enableProfiling, "enable-profiling", false, "Serve pprof below /debug/pprof of the metrics address, to users with the permission get for this non-resource URL.")

	deprecated := func(name, field string) {
		if err := fs.MarkDeprecated(name, "set "+field+" of the file given by --config"); err != nil {
			panic(err) // the flag was not added: a mistake in this function
		}
	}
	fs.StringToStringVar(&v.featureGates, "feature-gates", nil, "")
	deprecated("feature-gates", "featureGates")
	fs.IntVar(&v.metricsPort, "metrics-port", 8080, "")
	deprecated("metrics-port", "server.metrics.port")
	fs.StringVar(&v.webhookBindAddress, "webhook-server-bind-address", "", "")
	deprecated("webhook-server-bind-address", "server.webhooks.bindAddress")
	fs.IntVar(&v.webhookPort, "webhook-server-port", 9443, "")
	deprecated("webhook-server-port", "server.webhooks.port")
	fs.StringVar(&v.webhookCertDir, "webhook-server-tls-server-cert-dir", "/etc/webhook-server-tls", "")
	deprecated("webhook-server-tls-server-cert-dir", "server.webhooks.serverCertDir")
	fs.BoolVar(&v.leaderElection, "enable-leader-election", true, "")
	deprecated("enable-leader-election", "leaderElection.enabled")
	fs.StringVar(&v.leaderElectionResourceLock, "leader-election-resource-lock", "leases", "")
	deprecated("leader-election-resource-lock", "leaderElection.resourceLock")
	fs.BoolVar(&v.ignored, "disable-lease-cache", false, "")
	deprecated("disable-lease-cache", "controllers.disableLeaseCache, which has no effect any more,")
	fs.IntVar(&v.etcdWorkers, "etcd-workers", 3, "")
	deprecated("etcd-workers", "controllers.etcd.concurrentSyncs")
	fs.BoolVar(&v.autoReconcile, "enable-etcd-spec-auto-reconcile", false, "")
	deprecated("enable-etcd-spec-auto-reconcile", "controllers.etcd.enableEtcdSpecAutoReconcile")
	fs.BoolVar(&v.ignored, "disable-etcd-serviceaccount-automount", false, "")
	deprecated("disable-etcd-serviceaccount-automount", "controllers.etcd.disableEtcdServiceAccountAutomount, which has no effect any more,")
	fs.DurationVar(&v.statusSyncPeriod, "etcd-status-sync-period", 15*time.Second, "")
	deprecated("etcd-status-sync-period", "controllers.etcd.etcdStatusSyncPeriod")
	fs.DurationVar(&v.memberNotReadyThreshold, "etcd-member-notready-threshold", 5*time.Minute, "")
	deprecated("etcd-member-notready-threshold", "controllers.etcd.etcdMember.notReadyThreshold")
	fs.DurationVar(&v.memberUnknownThreshold, "etcd-member-unknown-threshold", time.Minute, "")
	deprecated("etcd-member-unknown-threshold", "controllers.etcd.etcdMember.unknownThreshold")
	v.addTaskFlags(fs, deprecated)
}

func (v *flagValues) addTaskFlags(fs *pflag.FlagSet, deprecated func(name, field string)) {
	fs.BoolVar(&v.compaction, "enable-backup-compaction", false, "")
	deprecated("enable-backup-compaction", "controllers.compaction.enabled")
	fs.IntVar(&v.compactionWorkers, "compaction-workers", 3, "")
	deprecated("compaction-workers", "controllers.compaction.concurrentSyncs")
	fs.Int64Var(&v.eventsThreshold, "etcd-events-threshold", 1_000_000, "")
	deprecated("etcd-events-threshold", "controllers.compaction.eventsThreshold")
	fs.DurationVar(&v.activeDeadlineDuration, "active-deadline-duration", 3*time.Hour, "")
	deprecated("active-deadline-duration", "controllers.compaction.activeDeadlineDuration")
	fs.DurationVar(&v.metricsScrapeWaitDuration, "metrics-scrape-wait-duration", 0, "")
	deprecated("metrics-scrape-wait-duration", "controllers.compaction.metricsScrapeWaitDuration")
	fs.BoolVar(&v.copyBackups, "enable-etcd-copy-backups-task", true, "")
	deprecated("enable-etcd-copy-backups-task", "controllers.etcdCopyBackupsTask.enabled")
	fs.IntVar(&v.copyBackupsWorkers, "etcd-copy-backups-task-workers", 3, "")
	deprecated("etcd-copy-backups-task-workers", "controllers.etcdCopyBackupsTask.concurrentSyncs")
	fs.IntVar(&v.opsTaskWorkers, "etcd-ops-task-workers", 3, "")
	deprecated("etcd-ops-task-workers", "controllers.etcdOpsTask.concurrentSyncs")
	fs.DurationVar(&v.opsTaskRequeueInterval, "etcd-ops-task-requeue-interval", 15*time.Second, "")
	deprecated("etcd-ops-task-requeue-interval", "controllers.etcdOpsTask.requeueInterval")
	fs.IntVar(&v.secretWorkers, "secret-workers", 10, "")
	deprecated("secret-workers", "controllers.secret.concurrentSyncs")
	fs.BoolVar(&v.componentProtection, "enable-etcd-components-webhook", false, "")
	deprecated("enable-etcd-components-webhook", "webhooks.etcdComponentProtection.enabled")
	fs.StringVar(&v.reconcilerServiceAccount, "reconciler-service-account", "", "")
	deprecated("reconciler-service-account", "webhooks.etcdComponentProtection.serviceAccountInfo")
	fs.StringSliceVar(&v.protectionExemptServiceAccount, "etcd-components-webhook-exempt-service-accounts", nil, "")
	deprecated("etcd-components-webhook-exempt-service-accounts", "webhooks.etcdComponentProtection.exemptServiceAccounts")
}

// applyFlags writes every flag that was given into the configuration. Where a flag of the library and a deprecated one
// mean the same and both are given, that of the library wins.
func (o *Options) applyFlags(c *configv1alpha1.OperatorConfiguration) error {
	v := o.flagValues
	for _, flag := range []struct {
		name  string
		apply func() error
	}{
		{"embedded-resource-manager", set(&c.ResourceManager.Embedded, v.embeddedResourceManager)},
		{"enable-profiling", set(&c.Debugging.EnableProfiling, v.enableProfiling)},
		{"feature-gates", func() error { return setFeatureGates(&c.FeatureGates, v.featureGates) }},
		{"webhook-server-bind-address", set(&c.Server.Webhooks.BindAddress, v.webhookBindAddress)},
		{"webhook-server-port", set(&c.Server.Webhooks.Port, v.webhookPort)},
		{"webhook-server-tls-server-cert-dir", set(&c.Server.Webhooks.ServerCertDir, v.webhookCertDir)},
		{"webhook-config-server-host", set(&c.Server.Webhooks.BindAddress, o.manager.WebhookServerHost)},
		{"webhook-config-server-port", set(&c.Server.Webhooks.Port, o.manager.WebhookServerPort)},
		{"webhook-config-cert-dir", set(&c.Server.Webhooks.ServerCertDir, o.manager.WebhookCertDir)},
		{"metrics-port", set(&c.Server.Metrics.Port, v.metricsPort)},
		{"metrics-bind-address", func() error { return setAddress(c.Server.Metrics, o.manager.MetricsBindAddress) }},
		{"health-bind-address", func() error { return setAddress(c.Server.HealthProbes, o.manager.HealthBindAddress) }},
		{"enable-leader-election", set(&c.LeaderElection.Enabled, &v.leaderElection)},
		{"leader-election", set(&c.LeaderElection.Enabled, &o.manager.LeaderElection)},
		{"leader-election-id", set(&c.LeaderElection.ResourceName, o.manager.LeaderElectionID)},
		{"leader-election-namespace", set(&c.LeaderElection.ResourceNamespace, o.manager.LeaderElectionNamespace)},
		{"leader-election-resource-lock", set(&c.LeaderElection.ResourceLock, v.leaderElectionResourceLock)},
		{"log-level", set(&c.Logging.LogLevel, configv1alpha1.LogLevel(o.manager.LogLevel))},
		{"log-format", set(&c.Logging.LogFormat, configv1alpha1.LogFormat(o.manager.LogFormat))},
		{"etcd-workers", set(&c.Controllers.Etcd.ConcurrentSyncs, &v.etcdWorkers)},
		{"etcd-max-concurrent-reconciles", set(&c.Controllers.Etcd.ConcurrentSyncs, &o.etcd.MaxConcurrentReconciles)},
		{"enable-etcd-spec-auto-reconcile", set(&c.Controllers.Etcd.EnableEtcdSpecAutoReconcile, v.autoReconcile)},
		{"etcd-status-sync-period", setDuration(&c.Controllers.Etcd.EtcdStatusSyncPeriod, v.statusSyncPeriod)},
		{"etcd-member-notready-threshold", setDuration(&c.Controllers.Etcd.EtcdMember.NotReadyThreshold, v.memberNotReadyThreshold)},
		{"etcd-member-unknown-threshold", setDuration(&c.Controllers.Etcd.EtcdMember.UnknownThreshold, v.memberUnknownThreshold)},
		{"enable-backup-compaction", set(&c.Controllers.Compaction.Enabled, v.compaction)},
		{"compaction-workers", set(&c.Controllers.Compaction.ConcurrentSyncs, &v.compactionWorkers)},
		{"compaction-max-concurrent-reconciles", set(&c.Controllers.Compaction.ConcurrentSyncs, &o.compaction.MaxConcurrentReconciles)},
		{"etcd-events-threshold", set(&c.Controllers.Compaction.EventsThreshold, v.eventsThreshold)},
		{"active-deadline-duration", setDuration(&c.Controllers.Compaction.ActiveDeadlineDuration, v.activeDeadlineDuration)},
		{"metrics-scrape-wait-duration", setDuration(&c.Controllers.Compaction.MetricsScrapeWaitDuration, v.metricsScrapeWaitDuration)},
		{"enable-etcd-copy-backups-task", set(&c.Controllers.EtcdCopyBackupsTask.Enabled, v.copyBackups)},
		{"etcd-copy-backups-task-workers", set(&c.Controllers.EtcdCopyBackupsTask.ConcurrentSyncs, &v.copyBackupsWorkers)},
		{"etcd-ops-task-workers", set(&c.Controllers.EtcdOpsTask.ConcurrentSyncs, &v.opsTaskWorkers)},
		{"opstask-max-concurrent-reconciles", set(&c.Controllers.EtcdOpsTask.ConcurrentSyncs, &o.opsTask.MaxConcurrentReconciles)},
		{"etcd-ops-task-requeue-interval", setDuration(&c.Controllers.EtcdOpsTask.RequeueInterval, v.opsTaskRequeueInterval)},
		{"secret-workers", set(&c.Controllers.Secret.ConcurrentSyncs, &v.secretWorkers)},
		{"enable-etcd-components-webhook", set(&c.Webhooks.EtcdComponentProtection.Enabled, v.componentProtection)},
		{"reconciler-service-account", set(&c.Webhooks.EtcdComponentProtection.ReconcilerServiceAccountFQDN, &v.reconcilerServiceAccount)},
		{"etcd-components-webhook-exempt-service-accounts", set(&c.Webhooks.EtcdComponentProtection.ExemptServiceAccounts, v.protectionExemptServiceAccount)},
	} {
		if !o.flags.Changed(flag.name) {
			continue
		}
		if err := flag.apply(); err != nil {
			return fmt.Errorf("invalid --%s: %w", flag.name, err)
		}
	}
	return nil
}

func set[T any](field *T, value T) func() error {
	return func() error {
		*field = value
		return nil
	}
}

func setDuration(field **metav1.Duration, value time.Duration) func() error {
	return set(field, &metav1.Duration{Duration: value})
}

func setFeatureGates(field *map[string]bool, values map[string]string) error {
	gates := make(map[string]bool, len(values))
	for name, value := range values {
		enabled, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%s must be true or false, not %q", name, value)
		}
		gates[name] = enabled
	}
	*field = gates
	return nil
}

// setAddress sets host and port from an address. An address without a colon is a host, the deprecated form, whose port
// another flag sets. "0" disables the server, as in the extension library.
func setAddress(server *configv1alpha1.Server, value string) error {
	switch {
	case value == "0":
		server.Port = -1
		return nil
	case !strings.Contains(value, ":") || net.ParseIP(value) != nil:
		server.BindAddress = value
		return nil
	}

	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return err
	}
	server.BindAddress = host
	server.Port, err = strconv.Atoi(port)
	return err
}

// address is the inverse of setAddress.
func address(server configv1alpha1.Server) string {
	if server.Port == -1 {
		return "0"
	}
	return net.JoinHostPort(server.BindAddress, strconv.Itoa(server.Port))
}
