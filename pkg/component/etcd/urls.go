// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hostURL is the URL of a host, https where there is TLS. IPv6 addresses get their brackets.
func hostURL(tls *TLS, host string, port int32) string {
	scheme := "http"
	if tls != nil {
		scheme = "https"
	}

	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// wildcard is the address for listening on all addresses of a pod. The IPv6 wildcard accepts IPv4 connections too, but is not
// available without IPv6.
func wildcard(families []corev1.IPFamily) string {
	if slices.Contains(families, corev1.IPv6Protocol) {
		return "::"
	}

	return "0.0.0.0"
}

// loopback is the address at which the containers of a pod reach each other.
func loopback(families []corev1.IPFamily) string {
	if slices.Contains(families, corev1.IPv4Protocol) {
		return "127.0.0.1"
	}

	return "::1"
}

// initialCluster lists all peer URLs by member, followed by those of the cluster to join: `<member>=<url>,...`.
func initialCluster(v Values) string {
	var entries []string
	for _, member := range v.Members {
		for _, url := range peerURLs(v, member) {
			entries = append(entries, member.Name+"="+url)
		}
	}
	if v.Bootstrap != nil {
		for _, member := range v.Bootstrap.Members {
			for _, url := range member.PeerURLs {
				entries = append(entries, member.Name+"="+url)
			}
		}
	}

	return strings.Join(entries, ",")
}

// urlsByMember maps the name of each member to its URLs. A member that leaves has none: its sidecar then adds no learner after its removal.
func urlsByMember(v Values, urls func(Values, Member) []string) map[string][]string {
	byMember := make(map[string][]string, len(v.Members))
	members := v.Members
	if v.Remaining > 0 {
		members = members[:v.Remaining]
	}
	for ordinal, member := range members {
		if v.Withdrawn != nil && ordinal == int(*v.Withdrawn) {
			continue
		}
		byMember[member.Name] = urls(v, member)
	}

	return byMember
}

// peerURLs are the URL with the host of the member, and its additional URLs. Each is listed once, although a user may list one twice: etcd
// refuses to start with duplicates.
func peerURLs(v Values, member Member) []string {
	urls := []string{hostURL(v.PeerTLS, member.Host, v.Ports.Peer)}
	for _, url := range member.AdditionalPeerURLs {
		if !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}

	return urls
}

func clientURLs(v Values, member Member) []string {
	return []string{hostURL(v.ClientTLS, member.Host, v.Ports.Client)}
}
