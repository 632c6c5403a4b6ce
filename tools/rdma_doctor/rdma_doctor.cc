// Looks at a machine, and says what of RDMA works there: see
// docs/rdma-doctor.md.

#include <cstdint>
#include <iostream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tools/command_line/parse_flags.h"
#include "tools/json/proto_json.h"
#include "tools/rdma_doctor/doctor.h"
#include "tools/rdma_doctor/system_root.h"
#include "tools/rdma_doctor/tls_checks.h"
#include "transport/base/status_macros.h"

ABSL_FLAG(bool, json, false, "print one JSON object");
ABSL_FLAG(bool, self_test, true,
          "call over each device, from this process to itself");
ABSL_FLAG(std::string, peer, "", "HOST:PORT of a Verbena server to call");
ABSL_FLAG(std::string, device, "",
          "call only over this device: soft, or the name of an RDMA device");
ABSL_FLAG(int, count, 100, "how many calls to measure on each device");
ABSL_FLAG(absl::Duration, timeout, absl::Seconds(5),
          "the deadline of each call");
ABSL_FLAG(std::string, tls_ca, "",
          "file with the certificates of the authorities that peers trust; it "
          "and the other files of TLS are checked as a program takes them");
ABSL_FLAG(std::string, tls_cert, "",
          "file with a certificate, and those of authorities between it and "
          "one of --tls-ca");
ABSL_FLAG(std::string, tls_key, "", "file with the key of --tls-cert");
ABSL_FLAG(std::string, tls_server_name, "",
          "a name by which clients call the server that has --tls-cert");
ABSL_FLAG(std::string, root, "",
          "a folder with copies of /sys, /proc, /dev and /etc of another "
          "machine, to look at instead of this one; makes no calls");

namespace verbena::doctor {
namespace {

constexpr int kWell = 0;
constexpr int kBroken = 1;  // Something does not work.

constexpr char kUsageText[] =
    R"( says which parts of RDMA work on this machine, which do not, and
the command that mends them; then it calls over each device, and measures.

  rdma_doctor [--json] [--peer=HOST:PORT] [--device=NAME] [--noself-test]
              [--tls-ca=FILE] [--tls-cert=FILE --tls-key=FILE]
              [--tls-server-name=NAME]

Exit status: 0 everything that was found works; 1 something does not; 2 bad
flags. A machine without RDMA is no error: Verbena has a software device.
)";

// Fails unless the flags name files that can be compared.
absl::StatusOr<TlsFiles> ReadTlsFiles() {
  TlsFiles files = {.ca = absl::GetFlag(FLAGS_tls_ca),
                    .cert = absl::GetFlag(FLAGS_tls_cert),
                    .key = absl::GetFlag(FLAGS_tls_key),
                    .server_name = absl::GetFlag(FLAGS_tls_server_name)};
  if (files.cert.empty() != files.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert and --tls-key go together: one of them is empty");
  }
  if (!files.server_name.empty() && files.empty()) {
    return absl::InvalidArgumentError(
        "--tls-server-name needs --tls-cert, whose names it is compared with");
  }
  return files;
}

// Refuses flags that need this machine if --root names a copy of another one.
absl::StatusOr<Options> ReadOptions() {
  Options options;
  options.root = SystemRoot(absl::GetFlag(FLAGS_root));
  options.self_test = absl::GetFlag(FLAGS_self_test);
  options.peer = absl::GetFlag(FLAGS_peer);
  options.device = absl::GetFlag(FLAGS_device);
  ASSIGN_OR_RETURN(options.tls, ReadTlsFiles());
  options.calls.calls = absl::GetFlag(FLAGS_count);
  options.calls.timeout = absl::GetFlag(FLAGS_timeout);
  if (options.calls.calls < 1) {
    return absl::InvalidArgumentError("--count must be at least 1");
  }
  if (options.calls.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--timeout must be positive");
  }
  if (!options.peer.empty() && !absl::StrContains(options.peer, ':')) {
    return absl::InvalidArgumentError(
        absl::StrCat("--peer=", options.peer, " is not HOST:PORT"));
  }
  if (!options.root.is_this_machine()) {
    if (!options.peer.empty() || !options.device.empty() ||
        !options.tls.empty()) {
      return absl::InvalidArgumentError(
          "--root only looks at copies of system files: it cannot be used with "
          "--peer, --device or --tls-...");
    }
    if (!options.root.Exists("/")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--root=", absl::GetFlag(FLAGS_root), " is not a folder"));
    }
    if (!options.root.Exists("/proc") && !options.root.Exists("/sys")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--root=", absl::GetFlag(FLAGS_root),
          " has neither proc nor sys, so there is nothing to look at"));
    }
  }
  return options;
}

// Exit codes are those of kUsageText. Warnings and notes do not count as
// broken.
int Main(int argc, char** argv) {
  tool::ReadCommandLine(argc, argv,
                        {.name = "rdma_doctor", .about = kUsageText});
  const absl::StatusOr<Options> options = ReadOptions();
  if (!options.ok()) {
    std::cerr << "rdma_doctor: " << options.status().message() << std::endl;
    return tool::kWrongCommandLine;
  }
  const Report report = Examine(*options);
  std::cout << (absl::GetFlag(FLAGS_json)
                    ? tool::ToJson(report, tool::JsonLayout::kIndented)
                    : ToText(report))
            << std::flush;
  return report.errors() > 0 ? kBroken : kWell;
}

}  // namespace
}  // namespace verbena::doctor

int main(int argc, char** argv) { return verbena::doctor::Main(argc, argv); }
