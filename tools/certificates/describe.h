// The contents of certificates, as people and programs read them.

#ifndef VERBENA_TOOLS_CERTIFICATES_DESCRIBE_H_
#define VERBENA_TOOLS_CERTIFICATES_DESCRIBE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tools/certificates/openssl_objects.h"

namespace verbena::certificates {

// Returns the subject, such as "CN=shop.example,O=Shop", or the first name if
// the subject is empty. Bytes that a terminal might obey are escaped.
std::string SubjectOf(X509* certificate);

// Returns the subject of the authority that signed, escaped.
std::string IssuerOf(X509* certificate);

// Returns the DNS names, IP addresses and URIs (subjectAltName), escaped.
std::vector<std::string> NamesOf(X509* certificate);

// Return when the certificate begins and ceases to be valid; InfinitePast() if
// the time in it cannot be read.
absl::Time BeginningOf(X509* certificate);
absl::Time EndOf(X509* certificate);

// Returns "EC of 256 bits", "RSA of 2048 bits" or the like.
std::string KeyTextOf(X509* certificate);

}  // namespace verbena::certificates

#endif  // VERBENA_TOOLS_CERTIFICATES_DESCRIBE_H_
