#include "tools/rdma_doctor/kernel_checks.h"

#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/io/gzip_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "tools/rdma_doctor/machine.h"

namespace verbena::doctor {
namespace {

// A driver of network cards, and the module that adds RDMA to it.
struct CardDriver {
  const char* network;
  const char* rdma;
};

constexpr std::array<CardDriver, 9> kCardDrivers = {{
    {"bnxt_en", "bnxt_re"},
    {"cxgb4", "iw_cxgb4"},
    {"hns3", "hns_roce_hw_v2"},
    {"i40e", "irdma"},
    {"ice", "irdma"},
    {"mana", "mana_ib"},
    {"mlx4_core", "mlx4_ib"},
    {"mlx5_core", "mlx5_ib"},
    {"qede", "qedr"},
}};

// Modules that are built into the kernel have such a folder as well, if they
// have parameters or a version.
bool IsLoaded(const SystemRoot& root, const std::string& module) {
  return root.Exists("/sys/module/" + module);
}

// Whether the kernel that runs comes with a module.
enum class Availability { kThere, kNotThere, kUnknown };

// Looks for the module's file in the indexes of the running kernel. Without an
// index nothing is known.
Availability AvailabilityOf(const SystemRoot& root, const std::string& module) {
  const std::string folder = absl::StrCat(
      "/lib/modules/", root.Read("/proc/sys/kernel/osrelease").value_or(""));
  const auto index = root.Read(folder + "/modules.dep");
  if (!index.has_value()) return Availability::kUnknown;
  const std::string builtin =
      root.Read(folder + "/modules.builtin").value_or("");
  // The name of a module's file may have hyphens, that of the module has none.
  const std::string file = absl::StrCat("/", module, ".ko");
  const std::string hyphens = absl::StrReplaceAll(file, {{"_", "-"}});
  bool there = false;
  for (const std::string& name : {file, hyphens}) {
    there = there || absl::StrContains(*index, name) ||
            absl::StrContains(builtin, name);
  }
  return there ? Availability::kThere : Availability::kNotThere;
}

// Whether the kernel says of its own build that there is nothing of RDMA in it.
bool IsBuiltWithoutRdma(const SystemRoot& root) {
  const auto release = root.Read("/proc/sys/kernel/osrelease");
  std::string configuration =
      root.Read("/boot/config-" + release.value_or("")).value_or("");
  // Debian has the file in /boot; kernels built by others may have this one.
  if (const auto packed = root.Read("/proc/config.gz")) {
    google::protobuf::io::ArrayInputStream bytes(
        packed->data(), static_cast<int>(packed->size()));
    google::protobuf::io::GzipInputStream text(&bytes);
    const void* data = nullptr;
    for (int size = 0; text.Next(&data, &size);) {
      configuration.append(static_cast<const char*>(data), size);
    }
  }
  return absl::StrContains(configuration, "# CONFIG_INFINIBAND is not set");
}

// How to load it, or how to get a kernel that has it.
std::string HowToLoad(const SystemRoot& root, const std::string& module) {
  // A container cannot load modules: its host must.
  if (IsInContainer(root)) {
    return absl::StrCat("modprobe ", module, "   # on the host, as root");
  }
  if (AvailabilityOf(root, module) != Availability::kNotThere) {
    return absl::StrCat("modprobe ", module, "; echo ", module,
                        " >>/etc/modules-load.d/rdma.conf");
  }
  return absl::StrCat(
      "apt-get install linux-image-amd64   # Debian; Ubuntu: "
      "linux-modules-extra-",
      root.Read("/proc/sys/kernel/osrelease").value_or("$(uname -r)"),
      "; then modprobe ", module);
}

std::string HowToAddRxe(const SystemRoot& root, const std::string& name) {
  return absl::StrCat("modprobe rdma_rxe; rdma link add ", name,
                      " type rxe netdev ", NetdevForRxe(root),
                      IsInContainer(root) ? "   # on the host, as root" : "");
}

// Cards whose driver works, but not its RDMA part.
void CheckCards(const SystemRoot& root, Findings* findings) {
  for (const CardDriver& each : kCardDrivers) {
    if (!IsLoaded(root, each.network) || IsLoaded(root, each.rdma)) continue;
    findings->Add(
        Finding::warning, "modules",
        absl::StrCat(each.network, " is loaded, ", each.rdma, " is not"),
        "if the network card can do RDMA, its RDMA device is missing",
        HowToLoad(root, each.rdma));
  }
}

}  // namespace

// Says which devices there are or how to get one, then whether there is the one
// that VERBENA_DEVICE names.
void CheckPresence(const SystemRoot& root, const std::vector<Device>& devices,
                   Findings* findings) {
  const std::string wanted = root.Environment("VERBENA_DEVICE").value_or("");
  std::vector<std::string> names;
  for (const Device& device : devices) names.push_back(device.name);
  if (!names.empty()) {
    findings->Ok("devices", absl::StrJoin(names, ", "));
  } else if (IsBuiltWithoutRdma(root)) {
    findings->Add(
        Finding::note, "devices",
        "this kernel is built without RDMA: CONFIG_INFINIBAND is not set",
        "no RDMA device can exist on it, not even rxe; Verbena uses its "
        "software device, soft, which needs no kernel support",
        IsInContainer(root)
            ? "install a distribution's kernel on the host"
            : "apt-get install linux-image-amd64   # Debian; then reboot");
  } else {
    findings->Add(
        Finding::note, "devices", "this machine has no RDMA device",
        "Verbena uses its software device, soft, which needs none; the "
        "kernel's own, rxe, sends RoCE over any Ethernet card",
        HowToAddRxe(root, "rxe0"));
    if (AvailabilityOf(root, "rdma_rxe") == Availability::kNotThere &&
        !IsLoaded(root, "rdma_rxe")) {
      findings->Add(Finding::note, "devices",
                    "this kernel comes without the module rdma_rxe",
                    "no rxe device can be made on it",
                    HowToLoad(root, "rdma_rxe"));
    }
  }
  if (wanted.empty() || wanted == "soft") return;
  for (const std::string& name : names) {
    if (name == wanted) return;
  }
  findings->Add(Finding::error, "devices",
                absl::StrCat("VERBENA_DEVICE is ", wanted,
                             ", and there is no such device"),
                "every server and channel fails with FAILED_PRECONDITION",
                absl::StrContains(wanted, "rxe") ? HowToAddRxe(root, wanted)
                                                 : "unset VERBENA_DEVICE");
}

// Names the modules that are loaded, then cards without theirs. Missing modules
// are errors only if there are devices.
void CheckModules(const SystemRoot& root, const std::vector<Device>& devices,
                  Findings* findings) {
  std::vector<std::string> loaded;
  for (const std::string module :
       {"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe"}) {
    if (IsLoaded(root, module)) loaded.push_back(module);
  }
  if (loaded.empty() && IsBuiltWithoutRdma(root)) {
    findings->Add(Finding::note, "modules", "no module of RDMA is loaded",
                  "this kernel is built without RDMA", "");
  } else if (loaded.empty()) {
    findings->Add(Finding::note, "modules", "no module of RDMA is loaded",
                  "no RDMA device can appear until one is loaded",
                  HowToLoad(root, "ib_uverbs"));
  } else {
    findings->Ok("modules", absl::StrJoin(loaded, ", "));
  }
  CheckCards(root, findings);
  // Without devices a missing module breaks nothing, and CheckPresence() has
  // said how to get devices.
  if (devices.empty()) return;
  if (!IsLoaded(root, "ib_uverbs")) {
    findings->Add(Finding::error, "modules", "ib_uverbs is not loaded",
                  "no program can open an RDMA device",
                  HowToLoad(root, "ib_uverbs"));
  }
  if (!IsLoaded(root, "rdma_ucm")) {
    findings->Add(Finding::error, "modules", "rdma_ucm is not loaded",
                  "no program can connect by addresses, as Verbena does",
                  HowToLoad(root, "rdma_ucm"));
  }
}

// A node may be missing, or may be closed to this user; each has its own
// remedy.
void CheckNodes(const SystemRoot& root, const std::vector<Device>& devices,
                Findings* findings) {
  for (const Device& device : devices) {
    if (device.uverbs.empty()) continue;  // CheckModules() says why.
    const std::string node = "/dev/infiniband/" + device.uverbs;
    const std::string seen = absl::StrCat(node, " of ", device.name);
    if (!root.Exists(node)) {
      findings->Add(Finding::error, "nodes", seen + " is not there",
                    "no program here can open the device",
                    IsInContainer(root)
                        ? HowToGetDevices(root)
                        : "udevadm trigger --subsystem-match=infiniband_verbs");
    } else if (!root.MayOpen(node)) {
      findings->Add(Finding::error, "nodes",
                    seen + " may not be opened by this user",
                    "programs of this user can't open the device",
                    absl::StrCat("chmod 0666 ", node,
                                 "   # rdma-core's udev rules do the same"));
    } else {
      findings->Ok("nodes", seen);
    }
  }
}

// Warns only if all holds: a device, an old kernel, and no variable that makes
// rdma-core guard its memory.
void CheckFork(const SystemRoot& root, const std::vector<Device>& devices,
               Findings* findings) {
  // rdma-core calls ibv_fork_init if either is set.
  const bool safe = root.Environment("RDMAV_FORK_SAFE").has_value() ||
                    root.Environment("IBV_FORK_SAFE").has_value();
  const std::string release =
      root.Read("/proc/sys/kernel/osrelease").value_or("");
  int major = 0;
  int minor = 0;
  if (devices.empty() || safe ||
      std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2 ||
      // From 5.12 on a fork does not move pinned pages away from their device.
      std::pair(major, minor) >= std::pair(5, 12)) {
    return;
  }
  findings->Add(
      Finding::warning, "fork",
      absl::StrCat("kernel ", absl::StripTrailingAsciiWhitespace(release),
                   " is older than 5.12"),
      "in a process that forks while it has a channel or a server, by system() "
      "and popen() too, an RDMA device writes to memory that the process no "
      "longer sees: its calls fail",
      "export RDMAV_FORK_SAFE=1 RDMAV_HUGEPAGES_SAFE=1   # for such programs");
}

// CheckModules() reports a missing module, so only the node is checked here.
void CheckConnectionManager(const SystemRoot& root,
                            const std::vector<Device>& devices,
                            Findings* findings) {
  if (devices.empty() || !IsLoaded(root, "rdma_ucm")) return;
  const std::string node = "/dev/infiniband/rdma_cm";
  if (!root.Exists(node)) {
    findings->Add(Finding::error, "rdma_cm", node + " is not there",
                  "no program here can connect by addresses",
                  IsInContainer(root)
                      ? HowToGetDevices(root)
                      : "udevadm trigger --subsystem-match=misc");
  } else if (!root.MayOpen(node)) {
    findings->Add(Finding::error, "rdma_cm",
                  node + " may not be opened by this user",
                  "programs of this user can't connect",
                  absl::StrCat("chmod 0666 ", node));
  } else {
    findings->Ok("rdma_cm", node);
  }
}

}  // namespace verbena::doctor
