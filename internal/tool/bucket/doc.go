// SPDX-License-Identifier: Apache-2.0

// Package bucket stores objects in a bucket of an S3-compatible server. It puts, gets, checks, lists, and deletes
// whole objects. It supports only the operations that backups need. It supports no multipart uploads, versions, or
// streams.
//
// Guarantees: (OB1) Put succeeds only if the server has acknowledged the object and then reports its size correctly.
// (OB2) Get returns as many bytes as the server announced. It never returns the text of an error. The caller must
// compare a digest to check the contents. (OB3) No server behavior makes a request wait indefinitely or a response
// exhaust memory. Constants of this package limit attempts, pauses, times, and sizes. Requests are signed with
// Signature Version 4, including bodies, by a package of minio-go. Redirects are not followed, because the signature
// would not match. Start reading at Bucket.
package bucket
