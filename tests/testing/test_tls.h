// Credentials for tests that run with TLS or without: see VERBENA_TEST_TLS.

#ifndef VERBENA_TESTS_TESTING_TEST_TLS_H_
#define VERBENA_TESTS_TESTING_TEST_TLS_H_

#include <memory>
#include <string>
#include <vector>

#include "rpc/credentials/tls.h"
#include "tools/certificates/certificates.h"

namespace verbena::testing_support {

// A certificate authority with a server's identity and a client's.
struct TestCertificates {
  certificates::Issued authority;
  IdentityKeyCertPair server;
  IdentityKeyCertPair client;
};

// The server has the name "localhost" and the addresses of this host's tests;
// the client has "spiffe://test.example/client".
TestCertificates MakeTestCertificates();

// An identity that `authority` has issued.
IdentityKeyCertPair IssueForTest(const certificates::Issued& authority,
                                 const certificates::IssueOptions& options);

// A provider of certificates that never change.
std::shared_ptr<CertificateProvider> Provider(
    const std::string& roots, std::vector<IdentityKeyCertPair> identity);

// Insecure ones, or if VERBENA_TEST_TLS is set those of TLS, by which both
// sides know each other.
std::shared_ptr<ServerCredentials> TestServerCredentials();
std::shared_ptr<ChannelCredentials> TestChannelCredentials();

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_TEST_TLS_H_
