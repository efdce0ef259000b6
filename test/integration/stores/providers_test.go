// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stores_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// content is the content of the snapshot in each source.
const content = "snapshot"

// part matches the end of the name of an object that is a part of a snapshot.
var part = regexp.MustCompile(`/[0-9]{10}$`)

// write responds to a request, and returns the call.
func write(w http.ResponseWriter, status int, contentType, body string, done call) call {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // #nosec G705 -- no browser reads it

	return done
}

// stored returns the names of the objects of a container below a prefix: the snapshot, if the container is the source.
func stored(container, prefix string) []string {
	if container != sourceContainer {
		return nil
	}

	return []string{prefix + "/v2/" + snapshotName}
}

// elements renders the names as XML elements.
func elements(format string, names []string) string {
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, format, name)
	}

	return all.String()
}

var s3Credential = regexp.MustCompile(`Credential=([^/]+)/[0-9]+/([^/]+)/s3/aws4_request`)

// s3 is the API of S3 and of OSS. The container is the first label of the host or the first segment of the path.
func s3(w http.ResponseWriter, r *http.Request) call {
	done := call{operation: "other", host: r.Host, credential: strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "OSS "), ":")[0]}
	if match := s3Credential.FindStringSubmatch(r.Header.Get("Authorization")); match != nil {
		done.credential = match[1] + " in " + match[2]
	}
	if label, domain, _ := strings.Cut(r.Host, "."); label == sourceContainer || label == targetContainer {
		done.container, done.host, done.object = label, domain, strings.TrimPrefix(r.URL.Path, "/")
	} else {
		done.container, done.object = cut(r.URL.Path)
	}
	query := r.URL.Query()
	respond := func(operation, body string) call {
		done.operation = operation

		return write(w, http.StatusOK, "application/xml", body, done)
	}
	switch {
	case query.Has("versioning"):
		return respond("other", "<VersioningConfiguration/>")
	case query.Has("worm"):
		return write(w, http.StatusNotFound, "application/xml", "<Error><Code>NoSuchWORMConfiguration</Code></Error>", done)
	case r.Method == http.MethodGet && done.object == "":
		done.object = query.Get("prefix")
		contents := elements("<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>e</ETag><Size>8</Size></Contents>", stored(done.container, done.object))

		return respond("list", "<ListBucketResult><Prefix>"+done.object+"</Prefix><IsTruncated>false</IsTruncated>"+contents+"</ListBucketResult>")
	case r.Method == http.MethodGet:
		return respond("get", content)
	case query.Has("uploads"):
		return respond("put", "<InitiateMultipartUploadResult><Bucket>"+done.container+"</Bucket><Key>"+done.object+"</Key><UploadId>u</UploadId></InitiateMultipartUploadResult>")
	case r.Method == http.MethodPost:
		return respond("put", "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>")
	default:
		w.Header().Set("ETag", `"e"`)

		return respond("put", "")
	}
}

// abs is the API of Azure Blob Storage.
func abs(w http.ResponseWriter, r *http.Request) call {
	done := call{operation: "other", host: r.Host, credential: strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "SharedKey "), ":")[0]}
	done.container, done.object = cut(r.URL.Path)
	query := r.URL.Query()
	w.Header().Set("ETag", `"e"`)
	w.Header().Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
	switch {
	case query.Get("comp") == "list":
		done.operation, done.object = "list", query.Get("prefix")
		blobs := elements("<Blob><Name>%s</Name><Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified></Properties></Blob>", stored(done.container, done.object))

		return write(w, http.StatusOK, "application/xml", "<EnumerationResults><Blobs>"+blobs+"</Blobs><NextMarker/></EnumerationResults>", done)
	case r.Method == http.MethodPut:
		done.operation = "put"

		return write(w, http.StatusCreated, "application/xml", "", done)
	case done.object != "":
		done.operation = "get"

		return write(w, http.StatusOK, "application/octet-stream", content, done)
	default:
		return write(w, http.StatusOK, "application/xml", "", done)
	}
}

// gcs is the API of Google Cloud Storage, with the endpoint that issues tokens for service accounts.
func gcs(w http.ResponseWriter, r *http.Request) call {
	done := call{operation: "other", host: r.Host, credential: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer token of ")}
	path, isAPI := strings.CutPrefix(strings.TrimPrefix(r.URL.EscapedPath(), "/upload"), "/storage/v1/b/")
	if r.URL.Path == "/token" {
		done.operation, done.credential = "auth", signerOf(r.FormValue("assertion"))

		return write(w, http.StatusOK, "application/json", fmt.Sprintf(`{"access_token":"token of %s","token_type":"Bearer","expires_in":3600}`, done.credential), done)
	}
	if !isAPI { // the XML API
		done.operation = "get"
		done.container, done.object = cut(r.URL.Path)

		return write(w, http.StatusOK, "application/octet-stream", content, done)
	}
	var object string
	done.container, object = cut(path)
	kind, object := cut(object)
	done.object, _ = url.PathUnescape(strings.TrimSuffix(object, "/compose"))
	respond := func(operation, body string) call {
		done.operation = operation

		return write(w, http.StatusOK, "application/json", body, done)
	}
	switch {
	case r.Method == http.MethodPost && object == "":
		done.object = part.ReplaceAllString(uploaded(r), "")

		return respond("put", `{}`)
	case r.Method == http.MethodPost:
		return respond("put", `{}`)
	case object != "":
		return respond("get", content)
	case kind == "o":
		done.object = r.URL.Query().Get("prefix")
		items, _ := json.Marshal(named(stored(done.container, done.object)))

		return respond("list", `{"items":`+string(items)+`}`)
	default:
		return respond("other", `{}`)
	}
}

// named returns the metadata of objects.
func named(names []string) []map[string]string {
	all := []map[string]string{}
	for _, name := range names {
		all = append(all, map[string]string{"name": name, "timeCreated": "2026-01-01T00:00:00Z"})
	}

	return all
}

var nameInBody = regexp.MustCompile(`"name":\s*"([^"]+)"`)

// uploaded returns the name of the object that the request uploads. It is in the query or in the first part of the body.
func uploaded(r *http.Request) string {
	if name := r.URL.Query().Get("name"); name != "" {
		return name
	}
	body, _ := io.ReadAll(r.Body)
	if match := nameInBody.FindSubmatch(body); match != nil {
		return string(match[1])
	}

	return ""
}

// signerOf returns the issuer of a token that is signed with the key of the service accounts. Otherwise it returns why not.
func signerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "no token"
	}
	signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&serviceAccountKey.PublicKey, crypto.SHA256, digest[:], signature); err != nil {
		return err.Error()
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	if err := json.Unmarshal(payload, &claims); err != nil {
		return err.Error()
	}

	return claims.Issuer
}

// swift is the API of OpenStack: Keystone, whose catalog contains Swift.
func swift(w http.ResponseWriter, r *http.Request) call {
	done := call{operation: "other", host: r.Host, credential: strings.TrimPrefix(r.Header.Get("X-Auth-Token"), "token of ")}
	if r.URL.Path == "/v3/auth/tokens" {
		body, _ := io.ReadAll(r.Body)
		done.operation, done.credential = "auth", identityIn(body)
		w.Header().Set("X-Subject-Token", "token of "+done.credential)

		return write(w, http.StatusCreated, "application/json",
			`{"token":{"expires_at":"2099-01-01T00:00:00.000000Z","catalog":[{"type":"object-store","endpoints":[{"interface":"public","region":"r","region_id":"r","url":"https://swift.example.com/v1/AUTH_p"}]}]}}`, done)
	}
	done.container, done.object = cut(strings.TrimPrefix(r.URL.Path, "/v1/AUTH_p"))
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPut:
		done.operation, done.object = "put", part.ReplaceAllString(done.object, "")

		return write(w, http.StatusCreated, "text/plain", "", done)
	case done.object != "":
		done.operation = "get"

		return write(w, http.StatusOK, "application/octet-stream", content, done)
	default:
		done.operation, done.object = "list", query.Get("prefix")
		if query.Get("marker") != "" { // the next page
			return write(w, http.StatusOK, "text/plain", "", done)
		}

		return write(w, http.StatusOK, "text/plain", strings.Join(stored(done.container, done.object), "\n"), done)
	}
}

// identityIn returns the credentials in a request for a token.
func identityIn(body []byte) string {
	type named struct {
		ID, Name, Password, Secret string

		Domain struct{ Name string }
	}
	var request struct {
		Auth struct {
			Identity struct {
				Password              struct{ User named }
				ApplicationCredential named `json:"application_credential"`
			}
			Scope struct{ Project named }
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return err.Error()
	}
	if application := request.Auth.Identity.ApplicationCredential; application.ID != "" {
		return application.ID + "/" + application.Secret
	}
	user, project := request.Auth.Identity.Password.User, request.Auth.Scope.Project

	return fmt.Sprintf("%s/%s of %s in %s/%s", user.Name, user.Password, user.Domain.Name, project.Domain.Name, project.Name)
}
