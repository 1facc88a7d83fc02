// SPDX-License-Identifier: Apache-2.0

package container

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/document"
)

// encryptionAlgorithm is the only algorithm of client encryption keys and client encryption policies.
const encryptionAlgorithm = "AEAD_AES_256_CBC_HMAC_SHA256"

// encryptionPathsMax is the maximum number of paths of a client encryption policy.
const encryptionPathsMax = 100

// encryptionPolicy is the member of a container definition that describes which paths clients encrypt. Clients encrypt
// and decrypt the values. The server only validates and stores the policy.
const encryptionPolicy = "clientEncryptionPolicy"

// checkEncryptionKey rejects an invalid client encryption key.
func checkEncryptionKey(v document.Value) *Error {
	if a := v.Get("encryptionAlgorithm"); a.Str() != encryptionAlgorithm {
		return Errorf(400, 0, "The value of 'encryptionAlgorithm' must be %s, not %v.", encryptionAlgorithm, a)
	}
	key := v.Get("wrappedDataEncryptionKey")
	if b, err := base64.StdEncoding.DecodeString(key.Str()); err != nil || len(b) == 0 {
		return Errorf(400, 0, "The value of 'wrappedDataEncryptionKey' must be a wrapped key in base64.")
	}
	wrap := v.Get("keyWrapMetadata")
	for _, member := range []string{"type", "name", "value", "algorithm"} {
		if m := wrap.Get(member); m.Kind() != document.String || m.Str() == "" {
			return Errorf(400, 0, "The member '%s' of 'keyWrapMetadata' must be a string.", member)
		}
	}
	return nil
}

// checkEncryptionPolicy rejects an invalid client encryption policy. paths are the partition key paths.
func checkEncryptionPolicy(policy document.Value, paths []string) *Error {
	if !isSet(policy) {
		return nil
	}
	version := policy.Get("policyFormatVersion").Float()
	if policy.Kind() != document.Object || version != 1 && version != 2 {
		return Errorf(400, 0, "The value of 'clientEncryptionPolicy.policyFormatVersion' must be 1 or 2, not %v.",
			policy.Get("policyFormatVersion"))
	}
	list := policy.Get("includedPaths")
	if n := list.Len(); list.Kind() != document.Array || n == 0 || n > encryptionPathsMax {
		return Errorf(400, 0, "The client encryption policy must have 1 to %d included paths.", encryptionPathsMax)
	}
	seen := map[string]bool{}
	for each := range list.Elements() {
		path := each.Get("path").Str()
		if e := checkEncryptedPath(each, path, version, paths); e != nil {
			return e
		}
		if seen[path] {
			return Errorf(400, 0, "The client encryption policy contains the path %s twice.", strconv.Quote(path))
		}
		seen[path] = true
	}
	return nil
}

// checkEncryptedPath rejects an invalid path of a client encryption policy.
func checkEncryptedPath(v document.Value, path string, version float64, paths []string) *Error {
	kind := v.Get("encryptionType").Str()
	key := slices.ContainsFunc(paths, func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") })
	switch {
	case len(path) < 2 || path[0] != '/' || strings.ContainsAny(path[1:], `/"*`):
		return Errorf(400, 0, "The path %s of the client encryption policy must be a top-level path such as /name.",
			strconv.Quote(path))
	case document.IsSystem(path[1:]):
		return Errorf(400, 0, "The system property %s cannot be encrypted.", strconv.Quote(path))
	case kind != "Deterministic" && kind != "Randomized":
		return Errorf(400, 0, "The encryption type of the path %s must be Deterministic or Randomized, not %v.",
			strconv.Quote(path), v.Get("encryptionType"))
	case v.Get("encryptionAlgorithm").Str() != encryptionAlgorithm:
		return Errorf(400, 0, "The encryption algorithm of the path %s must be %s, not %v.", strconv.Quote(path),
			encryptionAlgorithm, v.Get("encryptionAlgorithm"))
	case v.Get("clientEncryptionKeyId").Str() == "":
		return Errorf(400, 0, "The path %s of the client encryption policy has no clientEncryptionKeyId.",
			strconv.Quote(path))
	case (key || path == "/id") && version < 2:
		return Errorf(400, 0, "The path %s is the id or part of the partition key. It can be encrypted only with "+
			"policyFormatVersion 2.", strconv.Quote(path))
	case (key || path == "/id") && kind != "Deterministic":
		return Errorf(400, 0, "The path %s is the id or part of the partition key. Its encryption type must be "+
			"Deterministic.", strconv.Quote(path))
	}
	return nil
}

// checkEncryptionKeys rejects a definition whose client encryption policy refers to a key that does not exist.
func (f *definer) checkEncryptionKeys(d *Database, def *Definition) *Error {
	policy := document.View(def.JSON).Get(encryptionPolicy)
	if !isSet(policy) {
		return nil
	}
	state, _ := f.store.Resources()
	for each := range policy.Get("includedPaths").Elements() {
		id := each.Get("clientEncryptionKeyId").Str()
		if state.Find(parentIn(d, dbresource.EncryptionKey, nil), id) == nil {
			return Errorf(400, 0, "The client encryption key %s of the path %s does not exist in the database.",
				strconv.Quote(id), strconv.Quote(each.Get("path").Str()))
		}
	}
	return nil
}

// readEncryption validates the client encryption policy.
func (d *Definition) readEncryption(v document.Value) (document.Value, *Error) {
	return v, checkEncryptionPolicy(v.Get(encryptionPolicy), d.Paths)
}
