// Checks whether the files that TLS takes fit each other, and the names and
// sides that they are for.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_TLS_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_TLS_CHECKS_H_

#include <string>

#include "absl/time/time.h"
#include "tools/rdma_doctor/findings.h"

namespace verbena::doctor {

// The values of the flags of that name. A flag that is not given is empty.
struct TlsFiles {
  std::string ca;
  std::string cert;  // Empty if, and only if, `key` is.
  std::string key;
  // A name by which clients call the server that has `cert`.
  std::string server_name;

  bool empty() const { return ca.empty() && cert.empty(); }
};

// Checks each file, and whether they fit each other, at the time `now`. Makes
// no connection.
void CheckTls(const TlsFiles& files, absl::Time now, Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_TLS_CHECKS_H_
