// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// explain classifies an error of reading a response. A response that is complete but not usable is refused. A response that
// ends early counts as unreachable.
func explain(err error) error {
	var (
		syntax    *json.SyntaxError
		wrongType *json.UnmarshalTypeError
	)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooLarge), errors.Is(err, errNoJSON), errors.Is(err, errBadName):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case errors.As(err, &syntax), errors.As(err, &wrongType), strings.HasPrefix(err.Error(), "parsing time"):
		return fmt.Errorf("%w: %w", ErrRefused, errNoJSON)
	default:
		return fmt.Errorf("%w: %s", ErrUnreachable, classOf(err))
	}
}

// classOf returns the class of a connection error. It does not return the text of the error. That text contains the address,
// which changes, and possibly data that the other side sent, for example names in a certificate.
func classOf(err error) string {
	var (
		timeout     net.Error
		name        x509.HostnameError
		certificate *tls.CertificateVerificationError
		invalid     x509.CertificateInvalidError
		noTLS       tls.RecordHeaderError
		dns         *net.DNSError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &dns):
		return "host name not found"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to host"
	case errors.As(err, &name):
		return "the certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired"
	case errors.As(err, &certificate):
		return "the certificate is not trusted"
	case errors.As(err, &noTLS):
		return "the server does not use TLS"
	case strings.Contains(err.Error(), "response headers exceeded"): // net/http has no type for it
		return errTooLarge.Error()
	case strings.Contains(err.Error(), "malformed HTTP"):
		return "the response is not valid HTTP"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	default:
		return "connection failed"
	}
}
