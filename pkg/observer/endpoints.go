// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/panics"
)

// endpoint is the address of a member, and how to connect to it.
type endpoint struct {
	ordinal int
	host    string
	// port. Empty: that of the spec.
	port string
	// serverName that its certificate has to carry. Empty: the one in every member's certificate.
	serverName string
	secrets    *etcdcluster.ClientSecrets
	// isNamed is true if the spec or the joined cluster names the address. Any process may respond there.
	isNamed bool
}

// endpointResult is the response of one endpoint.
type endpointResult struct {
	status etcdcluster.EndpointStatus
	alarms []etcdcluster.Alarm
	client etcdclient.Client
}

// queryEtcd requests the status of all members concurrently, then the member list from one of the healthy ones.
func (r *reader) queryEtcd(ctx context.Context) {
	endpoints, existing := r.endpoints(), r.existingEndpoints()
	if len(endpoints)+len(existing) == 0 {
		return
	}
	timeout := r.MembersTimeout
	if timeout == 0 {
		timeout = defaultMembersTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	all := r.queryAll(ctx, slices.Concat(endpoints, existing))
	results := all[:len(endpoints)]
	r.observation.Etcd = etcdcluster.EtcdResponses{Queried: true}
	for _, result := range all[len(endpoints):] {
		r.observation.Etcd.Existing = append(r.observation.Etcd.Existing, result.status)
	}
	for _, result := range results {
		r.observation.Etcd.Members = append(r.observation.Etcd.Members, result.status)
		r.addAlarms(result.alarms)
	}
	r.readMemberList(ctx, results)
	r.queryListedExisting(ctx)
	r.results = results
}

// queryListedExisting requests the status of the voting members of the joined cluster at the client URLs that they advertise. A client endpoint may
// belong to more than one member. The plan depends on the health of each member. A leader transfers its leadership before it is removed.
func (r *reader) queryListedExisting(ctx context.Context) {
	if !r.queriesExisting() {
		return
	}
	for _, result := range r.queryAll(ctx, r.endpointsAt(r.listedURLs())) {
		r.observation.Etcd.Existing = append(r.observation.Etcd.Existing, result.status)
	}
}

// maxListedURLs is the maximum number of client URLs at which a member of the joined cluster is queried.
const maxListedURLs = 2

// listedURLs returns the client URLs of the voting members of the joined cluster that have not responded yet. Any process can respond at a client
// endpoint, and advertise any number of addresses. Each name that the spec has counts once, with two URLs.
func (r *reader) listedURLs() []string {
	var urls []string
	names := sets.New[string]()
	for _, listed := range r.observation.Etcd.MemberList {
		isKnown := slices.ContainsFunc(r.observation.Etcd.Existing, func(e etcdcluster.EndpointStatus) bool { return e.MemberID == listed.ID })
		if listed.Learner || isKnown || names.Has(listed.Name) || !etcdcluster.IsOfExisting(r.etcd, listed.Name) {
			continue
		}
		names.Insert(listed.Name)
		allowed := slices.DeleteFunc(slices.Clone(listed.ClientURLs), func(url string) bool { return !r.allowsListed(url) })
		urls = append(urls, allowed[:min(len(allowed), maxListedURLs)]...)
	}

	return urls
}

// allowsListed is true for a client URL that a member of the joined cluster may advertise. A cluster that joined before its client endpoints were
// forbidden may advertise any.
func (r *reader) allowsListed(url string) bool {
	existing := etcdcluster.ExistingCluster(r.etcd, r.observation.State)

	return r.Restrictions.AllowsURL(url) ||
		existing != nil && slices.ContainsFunc(existing.ClientEndpoints, func(endpoint string) bool { return !r.Restrictions.AllowsURL(endpoint) })
}

func (r *reader) queryAll(ctx context.Context, endpoints []endpoint) []endpointResult {
	results := make([]endpointResult, len(endpoints))
	slots := make(chan struct{}, maxRequests)
	var group sync.WaitGroup
	for i, endpoint := range endpoints {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			results[i] = r.query(ctx, endpoint)
		})
	}
	group.Wait()

	return results
}

// existingEndpoints returns the client endpoints of the cluster that the Etcd joins or has joined.
func (r *reader) existingEndpoints() []endpoint {
	existing := etcdcluster.ExistingCluster(r.etcd, r.observation.State)
	if existing == nil || !r.queriesExisting() {
		return nil
	}

	return r.endpointsAt(existing.ClientEndpoints)
}

// queriesExisting is true if the cluster that the Etcd joins is requested, and its endpoints may be used.
func (r *reader) queriesExisting() bool { return r.queryExisting && !r.isInvalid && !r.isForbidden }

// endpointsAt returns endpoints of the cluster that the Etcd joins, with the credentials of the members that join. Both clusters must trust each
// other.
func (r *reader) endpointsAt(urls []string) []endpoint {
	var endpoints []endpoint
	for _, text := range urls {
		parsed, err := url.Parse(text)
		if err != nil {
			continue // the API refuses it, or no client could use it
		}
		port := parsed.Port()
		if port == "" {
			port = strconv.Itoa(int(helper.ClientPort(r.etcd)))
		}
		endpoints = append(endpoints, endpoint{host: parsed.Hostname(), port: port, serverName: parsed.Hostname(), secrets: r.secretsOfSpec(), isNamed: true})
	}

	return endpoints
}

// endpoints are the members that have an address, sorted by ordinal.
func (r *reader) endpoints() []endpoint {
	var endpoints []endpoint
	with := func(secrets *etcdcluster.ClientSecrets) *etcdcluster.ClientSecrets {
		if r.clientTLS != nil {
			return r.clientTLS
		}

		return secrets
	}
	addresses := r.etcd.Spec.ExternallyManagedMemberAddresses
	if r.isInvalid || r.isForbidden {
		addresses = nil
	}
	for ordinal, address := range addresses {
		endpoints = append(endpoints, endpoint{ordinal: ordinal, host: address, secrets: with(r.secretsOfSpec())})
	}
	if len(endpoints) > 0 {
		return endpoints
	}
	for _, pod := range r.observation.Pods {
		if len(pod.IPs) > 0 && !pod.Deleting {
			endpoints = append(endpoints, endpoint{ordinal: pod.Ordinal, host: pod.IPs[0], port: portOf(pod), secrets: with(pod.ClientTLS)})
		}
	}

	return endpoints
}

// portOf returns the client port with which a pod was created: the spec may have changed since. Empty: not known.
func portOf(pod etcdcluster.Pod) string {
	if pod.ClientPort == 0 {
		return ""
	}

	return strconv.Itoa(int(pod.ClientPort))
}

func (r *reader) secretsOfSpec() *etcdcluster.ClientSecrets {
	tls := helper.ClientTLS(r.etcd)
	if tls == nil {
		return clientSecretsFor(r.observation.StatefulSet.TLS) // provisioned, or none
	}

	return &etcdcluster.ClientSecrets{CA: tls.TLSCASecretRef.Name, Client: tls.ClientTLSSecretRef.Name}
}

// target returns how to connect to a member. If its credentials cannot be read, the target has its address nevertheless.
func (r *reader) target(ctx context.Context, endpoint endpoint) (etcdclient.Target, error) {
	target := etcdclient.Target{
		Etcd:    r.key(r.etcd.Name),
		Address: net.JoinHostPort(endpoint.host, cmp.Or(endpoint.port, strconv.Itoa(int(helper.ClientPort(r.etcd))))),
		// The address is of no use to verify the member, this name is in every member's certificate.
		ServerName: cmp.Or(endpoint.serverName, helper.LocalHostName(r.etcd)),
	}
	var err error
	target.Credentials, err = r.credentials(ctx, endpoint.secrets)

	return target, err
}

// query requests the status of one member. The result has the error if the member does not respond.
func (r *reader) query(ctx context.Context, endpoint endpoint) endpointResult {
	target, err := r.target(ctx, endpoint)
	describe := error.Error
	var result endpointResult
	if err == nil {
		result, err = r.request(ctx, target)
		if endpoint.isNamed {
			describe = etcdclient.Describe
		}
	}
	if err != nil {
		return endpointResult{status: etcdcluster.EndpointStatus{
			Ordinal: endpoint.ordinal, Endpoint: target.Address, Error: describe(err), HandshakeFailed: errors.Is(err, etcdclient.ErrHandshake),
		}}
	}
	result.status.Ordinal, result.status.Endpoint = endpoint.ordinal, target.Address

	return result
}

// request requests the status at an address. Any process may respond there.
func (r *reader) request(ctx context.Context, target etcdclient.Target) (result endpointResult, err error) {
	defer panics.Recover(ctx, &err)
	began := time.Now()
	defer func() { RecordRequest(ctx, time.Since(began)) }()
	client, err := r.Etcd.Connect(ctx, target)
	if err != nil {
		return endpointResult{}, err
	}
	status, alarms, err := client.Status(ctx)
	if err != nil {
		r.Etcd.Disconnect(target) // the next request to this address connects at once, without the backoff of a lost connection

		return endpointResult{}, err
	}

	return endpointResult{status: status, alarms: alarms, client: client}, nil
}

func (r *reader) addAlarms(alarms []etcdcluster.Alarm) {
	for _, alarm := range alarms {
		if !slices.Contains(r.observation.Etcd.Alarms, alarm) {
			r.observation.Etcd.Alarms = append(r.observation.Etcd.Alarms, alarm)
		}
	}
	slices.SortFunc(r.observation.Etcd.Alarms, func(a, b etcdcluster.Alarm) int {
		return cmp.Or(cmp.Compare(a.MemberID, b.MemberID), cmp.Compare(a.Type, b.Type))
	})
}

// readMemberList requests the member list from the healthy members, one after the other, until one responds.
func (r *reader) readMemberList(ctx context.Context, results []endpointResult) {
	r.observation.Etcd.MemberListError = "no member is healthy"
	for _, result := range results {
		if !result.status.Healthy {
			continue
		}
		began := time.Now()
		members, err := result.client.MemberList(ctx)
		RecordRequest(ctx, time.Since(began))
		if err == nil {
			r.observation.Etcd.MemberList, r.observation.Etcd.MemberListError = members, ""

			return
		}
		r.observation.Etcd.MemberListError = err.Error()
	}
}

// readClusterVersion requests the cluster version from the healthy members, one after the other, until one knows it.
func (r *reader) readClusterVersion(ctx context.Context) {
	for _, result := range r.results {
		if !result.status.Healthy {
			continue
		}
		began := time.Now()
		version, err := result.client.ClusterVersion(ctx)
		RecordRequest(ctx, time.Since(began))
		if err == nil && version != "" {
			r.observation.Etcd.ClusterVersion, r.observation.Etcd.ClusterVersionError = version, ""

			return
		}
		if err != nil {
			r.observation.Etcd.ClusterVersionError = err.Error()
		}
	}
}

// readAuth requests from the healthy members, one after the other, whether etcd authenticates its clients, until one responds.
func (r *reader) readAuth(ctx context.Context) {
	for _, result := range r.results {
		if !result.status.Healthy {
			continue
		}
		began := time.Now()
		enabled, err := result.client.IsAuthEnabled(ctx)
		RecordRequest(ctx, time.Since(began))
		if err == nil {
			r.observation.Etcd.AuthEnabled = &enabled

			return
		}
	}
}
