#include "tools/rdma_doctor/doctor.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "rpc/version.h"
#include "tools/rdma_doctor/devices.h"
#include "tools/rdma_doctor/findings.h"
#include "tools/rdma_doctor/kernel_checks.h"
#include "tools/rdma_doctor/limit_checks.h"
#include "tools/rdma_doctor/live_checks.h"
#include "tools/rdma_doctor/machine.h"
#include "tools/rdma_doctor/mark_checks.h"
#include "tools/rdma_doctor/port_checks.h"
#include "tools/rdma_doctor/tls_checks.h"
#include "tools/rpc_bench/local_devices.h"
#include "transport/base/endpoint_options.h"
#include "transport/device.h"
#include "transport/verbs/system_provider.h"

namespace verbena::doctor {
namespace {

// In the order in which a user would mend what is found: devices, modules,
// nodes, ports, then limits.
void CheckFiles(const SystemRoot& root, const std::vector<Device>& devices,
                Findings* findings) {
  const bool has_devices = !devices.empty();
  CheckPresence(root, devices, findings);
  CheckModules(root, devices, findings);
  CheckContainer(root, has_devices, findings);
  CheckNodes(root, devices, findings);
  CheckConnectionManager(root, devices, findings);
  CheckFork(root, devices, findings);
  CheckPorts(root, devices, findings);
  CheckGids(root, devices, findings);
  CheckMtu(root, devices, findings);
  CheckCongestion(root, devices, findings);
  CheckMarks(root, devices, findings);
  CheckNuma(root, devices, findings);
  CheckMemlock(root, has_devices, findings);
  CheckUlimits(root, findings);
  CheckCgroups(root, findings);
  CheckHugePages(root, findings);
}

// A failure becomes an error with `mend`, a success a measurement and a line of
// text.
void Record(const std::string& check, const std::string& what,
            const absl::StatusOr<Measurement>& result, const std::string& mend,
            Report* report) {
  Findings findings(report);
  if (!result.ok()) {
    findings.Add(Finding::error, check, what + ": calls fail",
                 result.status().ToString(), mend);
    return;
  }
  *report->add_measurements() = *result;
  std::string text = absl::StrFormat(
      "%s: median %.1f us of %d calls, connected in %.1f us", what,
      result->median_us(), result->calls(), result->connect_us());
  if (result->has_large_us()) {
    absl::StrAppendFormat(&text, ", 1 MiB in %.1f us", result->large_us());
  }
  findings.Ok(check, text);
}

// Returns what may mend a device that is up and over which calls fail.
std::string HowToMendCalls(const SystemRoot& root, const Device& device) {
  constexpr char kLook[] =
      "dmesg | tail   # and see the lines on memlock, ports and gids";
  // Only rxe has a parent.
  const std::optional<std::string> parent =
      root.Read(absl::StrCat("/sys/class/infiniband/", device.name, "/parent"));
  if (!parent.has_value()) return kLook;
  // If rxe sends a message of the connection manager while its interface is
  // down, it receives none from then on.
  return absl::StrCat("rdma link delete ", device.name, "; rdma link add ",
                      device.name, " type rxe netdev ", *parent,
                      "   # if the interface was down; else ", kLook);
}

// Calls over each device that has an address, and the software device.
void CallDevices(const Options& options, const std::vector<Device>& devices,
                 Report* report) {
  // Without --device all devices are called over.
  const auto wanted = [&](const std::string& name) {
    return options.device.empty() || options.device == name;
  };
  std::map<std::string, bench::LocalDevice> reachable;
  if (!devices.empty()) {
    reachable = bench::LocalDevices(transport::SystemProvider());
  }
  bool called = false;
  for (const Device& device : devices) {
    if (!wanted(device.name)) continue;
    called = true;
    // A device that sysfs shows may have no address, or may be closed to this
    // process.
    const auto found = reachable.find(device.name);
    if (found == reachable.end()) {
      Findings(report).Add(
          options.device.empty() ? Finding::warning : Finding::error, "self",
          device.name + " cannot be used for calls",
          "no address of this machine leads to it, or this process may not "
          "use it: the lines above say why",
          "rdma link; ip address");
      continue;
    }
    Record("self", "to itself via " + device.name,
           MeasureDevice(device.name, found->second.address, options.calls),
           HowToMendCalls(options.root, device), report);
  }
  const std::string soft(transport::kSoftDevice);
  if (wanted(soft)) {
    called = true;
    Record("self", "to itself via " + soft,
           MeasureDevice(soft, "127.0.0.1:0", options.calls), "ulimit -a",
           report);
  }
  // No device has the name that the options want.
  if (called) return;
  Findings(report).Add(Finding::error, "self",
                       "there is no device " + options.device,
                       "no calls were made", "rdma link; ibv_devices");
}

// As Record(), but for calls to the server `options.peer`, with advice for the
// ways in which they fail.
void RecordPeer(const Options& options,
                const absl::StatusOr<Measurement>& result,
                bool by_software_device, Report* report) {
  const std::string to = "to " + options.peer;
  // A server that wants credentials is there and works, which is what was
  // asked.
  if (absl::IsUnauthenticated(result.status())) {
    Findings(report).Ok(
        "peer",
        absl::StrCat(to,
                     ": the server is there and requires credentials, which "
                     "this program does not have, so no call was made"));
    return;
  }
  std::string mend = absl::StrCat(
      "verbena ping ", options.peer,
      "   # is the server there, does a firewall let ",
      by_software_device ? "its TCP port" : "UDP port 4791", " through?");
  // The software device refuses processes of other users.
  if (absl::IsPermissionDenied(result.status())) {
    mend =
        "run both as one user, or set VERBENA_SOFT_PEERS at the end that does "
        "not trust the user of the other";
  }
  Record("peer",
         result.ok() ? absl::StrCat(to, " via ", result->device(), " (",
                                    result->fabric(), ": ",
                                    result->fabric_reason(), ")")
                     : to,
         result, mend, report);
}

}  // namespace

// Reads files first, which may be copies from another machine. Only on this
// machine it then opens devices, calls over them, and calls the peer.
Report Examine(const Options& options) {
  Report report;
  Findings findings(&report);
  report.set_version(std::string(kVersion));
  report.set_host(options.root.Read("/proc/sys/kernel/hostname").value_or(""));
  report.set_kernel(
      options.root.Read("/proc/sys/kernel/osrelease").value_or(""));
  const std::vector<Device> devices = ReadDevices(options.root);
  CheckFiles(options.root, devices, &findings);
  if (!options.tls.empty()) CheckTls(options.tls, absl::Now(), &findings);
  // A copy of files can be read, but not called.
  if (!options.root.is_this_machine()) return report;
  const transport::Provider& system = transport::SystemProvider();
  if (!devices.empty()) CheckOpening(system, devices, &findings);
  if (options.self_test) CallDevices(options, devices, &report);
  if (!options.peer.empty()) {
    transport::EndpointOptions asked;
    asked.device = options.device;
    // If the software device is asked for, calls use no RDMA device.
    if (transport::WantedDevice(asked) != transport::kSoftDevice) {
      CheckRoute(system, devices, options.peer, &findings);
    }
    const absl::StatusOr<Measurement> result =
        MeasurePeer(options.device, options.peer, options.calls);
    RecordPeer(options, result,
               devices.empty() ||
                   transport::WantedDevice(asked) == transport::kSoftDevice,
               &report);
  }
  return report;
}

}  // namespace verbena::doctor
