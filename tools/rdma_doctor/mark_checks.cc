#include "tools/rdma_doctor/mark_checks.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace verbena::doctor {
namespace {

// The code point is all of a traffic class but the two bits of ECN.
std::string CodePoint(int64_t traffic_class) {
  return absl::StrCat("code point ", traffic_class >> 2, " (traffic class ",
                      traffic_class, ")");
}

// The file exists only with the vendor's driver of NVIDIA's NICs.
std::string OverrideFile(const Port& port) {
  return absl::StrCat("/sys/class/infiniband/", port.device, "/tc/",
                      port.number, "/traffic_class");
}

// Returns the traffic class that the driver gives all packets of the port, or
// nothing if it gives none. Lines without "Global" are for single addresses.
std::optional<int64_t> OverrideOf(const SystemRoot& root, const Port& port) {
  const std::string text = root.Read(OverrideFile(port)).value_or("");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int64_t value = 0;
    if (absl::ConsumePrefix(&line, "Global tclass=") &&
        absl::SimpleAtoi(line, &value)) {
      return value;
    }
  }
  return std::nullopt;
}

// The override wins over programs, and these over the default.
void CheckMark(const SystemRoot& root, const Port& port, Findings* findings) {
  const std::optional<int64_t> all = OverrideOf(root, port);
  if (all.has_value()) {
    findings->Add(
        Finding::note, "marks",
        absl::StrCat(port.name(), " gives all packets ", CodePoint(*all)),
        "ChannelOptions::dscp and ServerBuilder::SetDscp change nothing there",
        absl::StrCat("echo tclass=-1 >", OverrideFile(port),
                     "   # if programs are to choose"));
    return;
  }
  // The folder exists only if an administrator has made it.
  const int64_t value =
      root.ReadNumber(absl::StrCat("/sys/kernel/config/rdma_cm/", port.device,
                                   "/ports/", port.number, "/default_roce_tos"))
          .value_or(0);
  findings->Ok("marks",
               absl::StrCat(port.name(), " gives packets ", CodePoint(value),
                            " if a program asks for no other"));
}

// No file says which priority a code point has, nor which traffic class of the
// NIC a priority has: the kernel tells them only by netlink.
void CheckTrust(const SystemRoot& root, const Port& port, Findings* findings) {
  const std::string how_to_look =
      absl::StrCat("dcb app show dev ", port.netdev, "; dcb ets show dev ",
                   port.netdev, "   # or mlnx_qos -i ", port.netdev);
  // Only some drivers have it.
  const std::optional<std::string> trust =
      root.Read(absl::StrCat("/sys/class/net/", port.netdev, "/qos/trust"));
  if (!trust.has_value()) {
    findings->Add(Finding::note, "marks",
                  absl::StrCat("no file says whether ", port.netdev,
                               " chooses priorities by code points"),
                  "if it does not, marks matter only to switches", how_to_look);
  } else if (*trust == "dscp") {
    findings->Add(Finding::note, "marks",
                  absl::StrCat(port.netdev,
                               " chooses priorities by code points; no file "
                               "says which"),
                  "the priority decides on queue, bandwidth and PFC",
                  how_to_look);
  } else {
    findings->Add(Finding::note, "marks",
                  absl::StrCat(port.netdev, " chooses priorities by ", *trust,
                               ", not by code points"),
                  "marks matter only to switches",
                  absl::StrCat("mlnx_qos -i ", port.netdev, " --trust=dscp"));
  }
}

}  // namespace

void CheckMarks(const SystemRoot& root, const std::vector<Device>& devices,
                Findings* findings) {
  for (const Device& device : devices) {
    for (const Port& port : device.ports) {
      if (!port.is_ethernet()) continue;
      CheckMark(root, port, findings);
      // The packets of rxe go through the queues of the host, like others.
      const bool is_rxe =
          root.Exists("/sys/class/infiniband/" + port.device + "/parent");
      if (!is_rxe && !port.netdev.empty()) CheckTrust(root, port, findings);
    }
  }
}

}  // namespace verbena::doctor
