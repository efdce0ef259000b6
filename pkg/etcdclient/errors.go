// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// class is a class of errors that gRPC and net/http report only as texts.
type class struct {
	texts       []string
	description string
}

// classes are in the order in which they are searched: a text may contain several.
var classes = []class{
	{[]string{"x509: certificate is valid for", "x509: certificate is not valid for", "x509: cannot validate certificate for", "x509: certificate relies on legacy"}, "the certificate is for another name"},
	{[]string{"x509: certificate has expired"}, "the certificate has expired, or is not valid yet"},
	{[]string{"x509: "}, "the certificate is not trusted"},
	{[]string{"remote error: tls: "}, "the member rejects the TLS handshake"},
	{[]string{"first record does not look like a TLS handshake", "server gave HTTP response to HTTPS client"}, "the member does not use TLS"},
	{[]string{"authentication handshake failed: tls: "}, "the TLS handshake failed"},
	{[]string{"no such host", "server misbehaving"}, "host name not found"},
	{[]string{"connection refused"}, "connection refused"},
	{[]string{"no route to host", "network is unreachable"}, "no route to host"},
	{[]string{"i/o timeout", "context deadline exceeded", "Client.Timeout exceeded"}, "timeout"},
	{[]string{"error reading server preface", "unexpected HTTP status code", "unexpected content-type", "malformed HTTP"}, "no etcd responds"},
	{[]string{"connection reset", "broken pipe", "EOF", "closing transport", "connection closed"}, "connection closed"},
}

// Describe returns the class of an error of a call to a member, for conditions and events. Any process can respond at an address that a spec names. The text
// of the error has what it sends, for example names in a certificate, or the body of a web page. The errors of etcd have fixed texts.
func Describe(err error) string {
	var (
		etcdError rpctypes.EtcdError
		grpcError interface{ GRPCStatus() *status.Status }
	)
	if errors.As(err, &grpcError) && errors.As(rpctypes.Error(grpcError.GRPCStatus().Err()), &etcdError) || errors.As(err, &etcdError) {
		return etcdError.Error()
	}
	text := err.Error()
	for _, class := range classes {
		if slices.ContainsFunc(class.texts, func(known string) bool { return strings.Contains(text, known) }) {
			return class.description
		}
	}
	code := status.Code(err)
	switch {
	case errors.Is(err, context.Canceled) || code == codes.Canceled:
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded) || code == codes.DeadlineExceeded:
		return "timeout"
	case code == codes.Unavailable:
		return "connection failed"
	case code == codes.Unknown:
		return "an unexpected response"
	default:
		return "the response has the code " + code.String()
	}
}
