// Checks of each file that TLS takes: certificates, and a private key.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_TLS_FILE_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_TLS_FILE_CHECKS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tools/certificates/openssl_objects.h"
#include "tools/rdma_doctor/findings.h"

namespace verbena::doctor {

using Certificates = std::vector<certificates::Owned<X509>>;

// Check that the certificates of a file can be read, are valid at the time
// `now`, and are strong enough for TLS. Return them. If an error says why they
// cannot be read, or if `path` is empty, there are none.
Certificates CheckAuthorities(const std::string& path, absl::Time now,
                              Findings* findings);
Certificates CheckCertificates(const std::string& path, absl::Time now,
                               Findings* findings);

// Checks that the file `path` has the key of the first certificate of `chain`,
// which the file `cert` has, and that others cannot read it. Does nothing if
// `path` is empty.
void CheckKey(const std::string& path, const std::string& cert,
              const Certificates& chain, Findings* findings);

// Adds a finding if other users than `self` have power over the key file
// `path`. Returns whether it added one.
bool CheckKeyAccess(const std::string& path, mode_t mode, uid_t owner,
                    uid_t self, Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_TLS_FILE_CHECKS_H_
