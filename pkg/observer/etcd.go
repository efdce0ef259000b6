// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// endpoint is a member that can be asked.
type endpoint struct {
	ordinal int
	host    string
	// port. Empty: that of the spec.
	port string
	// serverName that its certificate has to carry. Empty: the one in every member's certificate.
	serverName string
	secrets    *etcdcluster.ClientSecrets
}

// asked is what came back from one endpoint.
type asked struct {
	answer etcdcluster.EndpointStatus
	alarms []etcdcluster.Alarm
	client etcdclient.Client
}

// askEtcd asks all members at the same time, then one of those that serve for the list.
func (p *pass) askEtcd(ctx context.Context) {
	endpoints, existing := p.endpoints(), p.existingEndpoints()
	if len(endpoints)+len(existing) == 0 {
		return
	}
	timeout := p.MembersTimeout
	if timeout == 0 {
		timeout = defaultMembersTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	all := p.askAll(ctx, slices.Concat(endpoints, existing))
	results := all[:len(endpoints)]
	p.seen.Etcd = etcdcluster.EtcdResponses{Queried: true}
	for _, result := range all[len(endpoints):] {
		p.seen.Etcd.Existing = append(p.seen.Etcd.Existing, result.answer)
	}
	for _, result := range results {
		p.seen.Etcd.Members = append(p.seen.Etcd.Members, result.answer)
		p.addAlarms(result.alarms)
	}
	p.readMemberList(ctx, results)
}

func (p *pass) askAll(ctx context.Context, endpoints []endpoint) []asked {
	results := make([]asked, len(endpoints))
	slots := make(chan struct{}, mostRequests)
	var group sync.WaitGroup
	for i, endpoint := range endpoints {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			results[i] = p.ask(ctx, endpoint)
		})
	}
	group.Wait()

	return results
}

// existingEndpoints are those at which the cluster that is joined serves clients, with the credentials of the members that
// join: both have to trust each other.
func (p *pass) existingEndpoints() []endpoint {
	bootstrap := p.etcd.Spec.Etcd.BootstrapWithExistingCluster
	if bootstrap == nil || !p.askExisting || p.isInvalid {
		return nil
	}
	var endpoints []endpoint
	for _, text := range bootstrap.ClientEndpoints {
		parsed, err := url.Parse(text)
		if err != nil {
			continue // refused by the API
		}
		port := parsed.Port()
		if port == "" {
			port = strconv.Itoa(int(helper.ClientPort(p.etcd)))
		}
		endpoints = append(endpoints, endpoint{host: parsed.Hostname(), port: port, serverName: parsed.Hostname(), secrets: p.secretsOfSpec()})
	}

	return endpoints
}

// endpoints are the members that have an address, sorted by ordinal.
func (p *pass) endpoints() []endpoint {
	var endpoints []endpoint
	with := func(secrets *etcdcluster.ClientSecrets) *etcdcluster.ClientSecrets {
		if p.clientTLS != nil {
			return p.clientTLS
		}

		return secrets
	}
	addresses := p.etcd.Spec.ExternallyManagedMemberAddresses
	if p.isInvalid {
		addresses = nil
	}
	for ordinal, address := range addresses {
		endpoints = append(endpoints, endpoint{ordinal: ordinal, host: address, secrets: with(p.secretsOfSpec())})
	}
	if len(endpoints) > 0 {
		return endpoints
	}
	for _, pod := range p.seen.Pods {
		if len(pod.IPs) > 0 && !pod.Deleting {
			endpoints = append(endpoints, endpoint{ordinal: pod.Ordinal, host: pod.IPs[0], port: portOf(pod), secrets: with(pod.ClientTLS)})
		}
	}

	return endpoints
}

// portOf is the port at which a pod was made to serve: the spec may have changed since. Empty: not known.
func portOf(pod etcdcluster.Pod) string {
	if pod.ClientPort == 0 {
		return ""
	}

	return strconv.Itoa(int(pod.ClientPort))
}

func (p *pass) secretsOfSpec() *etcdcluster.ClientSecrets {
	tls := helper.ClientTLS(p.etcd)
	if tls == nil {
		return clientSecretsFor(p.seen.StatefulSet.TLS) // provisioned, or none
	}

	return &etcdcluster.ClientSecrets{CA: tls.TLSCASecretRef.Name, Client: tls.ClientTLSSecretRef.Name}
}

// target is the way to a member; it has its address also where its credentials cannot be had.
func (p *pass) target(ctx context.Context, endpoint endpoint) (etcdclient.Target, error) {
	target := etcdclient.Target{
		Address: net.JoinHostPort(endpoint.host, cmp.Or(endpoint.port, strconv.Itoa(int(helper.ClientPort(p.etcd))))),
		// The address is of no use to verify the member, this name is in every member's certificate.
		ServerName: cmp.Or(endpoint.serverName, helper.LocalHostName(p.etcd)),
	}
	var err error
	target.Credentials, err = p.credentials(ctx, endpoint.secrets)

	return target, err
}

// ask asks one member. It never fails: silence is an answer.
func (p *pass) ask(ctx context.Context, endpoint endpoint) asked {
	target, err := p.target(ctx, endpoint)
	silent := func(err error) asked {
		return asked{answer: etcdcluster.EndpointStatus{Ordinal: endpoint.ordinal, Endpoint: target.Address, Error: err.Error()}}
	}
	if err != nil {
		return silent(err)
	}
	began := time.Now()
	defer func() { RecordRequest(ctx, time.Since(began)) }()
	client, err := p.Etcd.Connect(ctx, target)
	if err != nil {
		return silent(err)
	}
	answer, alarms, err := client.Status(ctx)
	if err != nil {
		p.Etcd.Disconnect(target) // whoever comes back at this address is met at once, without the delays of a lost connection

		return silent(err)
	}
	answer.Ordinal, answer.Endpoint = endpoint.ordinal, target.Address

	return asked{answer: answer, alarms: alarms, client: client}
}

func (p *pass) addAlarms(alarms []etcdcluster.Alarm) {
	for _, alarm := range alarms {
		if !slices.Contains(p.seen.Etcd.Alarms, alarm) {
			p.seen.Etcd.Alarms = append(p.seen.Etcd.Alarms, alarm)
		}
	}
	slices.SortFunc(p.seen.Etcd.Alarms, func(a, b etcdcluster.Alarm) int {
		return cmp.Or(cmp.Compare(a.MemberID, b.MemberID), cmp.Compare(a.Type, b.Type))
	})
}

// readMemberList asks the members that serve, in turn, until one gives the list.
func (p *pass) readMemberList(ctx context.Context, results []asked) {
	p.seen.Etcd.MemberListError = "no member is healthy"
	for _, result := range results {
		if !result.answer.Healthy {
			continue
		}
		began := time.Now()
		members, err := result.client.MemberList(ctx)
		RecordRequest(ctx, time.Since(began))
		if err == nil {
			p.seen.Etcd.MemberList, p.seen.Etcd.MemberListError = members, ""

			return
		}
		p.seen.Etcd.MemberListError = err.Error()
	}
}
