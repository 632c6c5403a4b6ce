#include "tools/rdma_doctor/limit_checks.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tools/rdma_doctor/machine.h"

namespace verbena::doctor {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// On rxe, with 2 MiB, a process with a server and a channel to it cannot
// connect. With 4 MiB it connects, and can send messages of 1 MiB.
constexpr uint64_t kLockedLeast = 4 * kMiB;
// Memory that large messages of a channel, or of a server's poller, may lock by
// default: ChannelOptions::max_arena_bytes, ServerBuilder::SetMaxBulkBytes().
constexpr uint64_t kLockedEnough = 1024 * kMiB;

constexpr uint64_t kFilesLeast = 1024;
constexpr uint64_t kMemoryLeast = 256 * kMiB;
constexpr uint64_t kHandlesLeast = 8;
constexpr uint64_t kObjectsLeast = 1000;

std::string SizeOf(std::optional<uint64_t> bytes) {
  if (!bytes.has_value()) return "unlimited";
  return *bytes >= kMiB ? absl::StrCat(*bytes / kMiB, " MiB")
                        : absl::StrCat(*bytes / 1024, " KiB");
}

// Whether this process is of a service, and not of a login.
bool IsInService(const SystemRoot& root) {
  const std::string groups = root.Read("/proc/self/cgroup").value_or("");
  return absl::StrContains(groups, ".service") &&
         !absl::StrContains(groups, "user.slice");
}

// The limit is set in another place for a container, a service and a login.
std::string HowToLockMore(const SystemRoot& root, const Limit& limit) {
  if (IsInContainer(root)) {
    return IsInKubernetes(root)
               ? "securityContext: {capabilities: {add: [IPC_LOCK]}} in the "
                 "pod's container"
               : "docker run --ulimit memlock=-1 ...";
  }
  if (IsInService(root)) {
    return "systemctl edit UNIT   # [Service] LimitMEMLOCK=infinity; then "
           "systemctl restart UNIT";
  }
  if (!limit.hard.has_value()) return "ulimit -l unlimited";
  return "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' "
         ">/etc/security/limits.d/rdma.conf   # then log in again";
}

// DefaultLimitMEMLOCK of systemd, as the last file that has it says; nothing if
// none does.
std::optional<std::string> DefaultOfServices(const SystemRoot& root) {
  std::vector<std::string> files = {"/etc/systemd/system.conf"};
  for (const std::string& name : root.List("/etc/systemd/system.conf.d")) {
    files.push_back("/etc/systemd/system.conf.d/" + name);
  }
  std::optional<std::string> found;
  for (const std::string& file : files) {
    const std::string text = root.Read(file).value_or("");
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      line = absl::StripAsciiWhitespace(line);
      if (absl::ConsumePrefix(&line, "DefaultLimitMEMLOCK=")) {
        found = std::string(line);
      }
    }
  }
  return found;
}

void CheckServices(const SystemRoot& root, bool has_devices,
                   Findings* findings) {
  // As sd_booted(3) has it.
  if (!root.Exists("/run/systemd/system")) return;
  // 8M is the default that systemd itself has.
  const std::string value = DefaultOfServices(root).value_or("8M");
  if (absl::StartsWith(value, "infinity")) {
    findings->Ok("memlock", "services of systemd may lock any amount");
    return;
  }
  findings->Add(has_devices ? Finding::warning : Finding::note, "memlock",
                absl::StrCat("services of systemd may lock ", value,
                             " if their unit does not say more"),
                "on an RDMA device large messages of a service fail",
                "systemctl edit UNIT   # [Service] LimitMEMLOCK=infinity");
}

// The folder of this process's group; `controller` where each has its own.
std::string GroupFolder(const SystemRoot& root, absl::string_view controller) {
  std::string unified;
  const std::string text = root.Read("/proc/self/cgroup").value_or("");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    for (const absl::string_view name : absl::StrSplit(parts[1], ',')) {
      if (name == controller) {
        return absl::StrCat("/sys/fs/cgroup/", controller, parts[2]);
      }
    }
    // Version 2 has one line, "0::PATH". Version 1 has a line for each
    // hierarchy, with the names of its controllers.
    if (parts[0] == "0") unified = "/sys/fs/cgroup" + parts[2];
  }
  return unified;
}

// A line of rdma.max: "mlx5_0 hca_handle=2 hca_object=max".
void CheckRdmaMax(const std::string& file, absl::string_view line,
                  Findings* findings) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, ' ', absl::SkipWhitespace());
  // "max" is no number, and so never low.
  bool low = false;
  for (absl::string_view word : words) {
    uint64_t value = 0;
    if (absl::ConsumePrefix(&word, "hca_handle=") &&
        absl::SimpleAtoi(word, &value)) {
      low = low || value < kHandlesLeast;
    }
    if (absl::ConsumePrefix(&word, "hca_object=") &&
        absl::SimpleAtoi(word, &value)) {
      low = low || value < kObjectsLeast;
    }
  }
  if (words.empty()) return;
  if (!low) return findings->Ok("cgroup", std::string(line));
  findings->Add(Finding::warning, "cgroup", std::string(line),
                "the control group allows few RDMA objects: connections fail "
                "when they are used up",
                absl::StrCat("echo '", words[0],
                             " hca_handle=max hca_object=max' >", file));
}

}  // namespace

// Goes from what lifts the limit to what breaks: CAP_IPC_LOCK, a high limit, no
// device, then limits that are too low for connections or large messages.
void CheckMemlock(const SystemRoot& root, bool has_devices,
                  Findings* findings) {
  const std::optional<Limit> limit = ReadLimit(root, "Max locked memory");
  if (limit.has_value()) {
    const std::string seen =
        absl::StrCat("this process may lock ", SizeOf(limit->soft),
                     " (hard limit: ", SizeOf(limit->hard), ")");
    if (MayLockAnyMemory(root)) {
      findings->Ok("memlock",
                   seen + "; it has CAP_IPC_LOCK, so the limit does not apply");
    } else if (!limit->soft.has_value() || *limit->soft >= kLockedEnough) {
      findings->Ok("memlock", seen);
    } else if (!has_devices) {
      findings->Add(Finding::note, "memlock", seen,
                    "too little for an RDMA device; the software device locks "
                    "none",
                    HowToLockMore(root, *limit));
    } else if (*limit->soft < kLockedLeast) {
      findings->Add(Finding::error, "memlock", seen,
                    "RDMA devices lock the memory that they use: connecting "
                    "fails",
                    HowToLockMore(root, *limit));
    } else {
      findings->Add(Finding::warning, "memlock", seen,
                    "RDMA devices lock the memory that they use: large "
                    "messages, or many connections, fail",
                    HowToLockMore(root, *limit));
    }
  }
  CheckServices(root, has_devices, findings);
}

// Open files matter to servers of many connections, address space to large
// messages.
void CheckUlimits(const SystemRoot& root, Findings* findings) {
  const std::optional<Limit> files = ReadLimit(root, "Max open files");
  if (files.has_value() && files->soft.has_value() &&
      *files->soft <= kFilesLeast) {
    findings->Add(Finding::note, "ulimits",
                  absl::StrCat("at most ", *files->soft, " open files"),
                  "a server of more than some hundred connections runs out of "
                  "descriptors",
                  "ulimit -n 65536   # LimitNOFILE=65536 in a systemd unit");
  } else if (files.has_value()) {
    findings->Ok("ulimits",
                 absl::StrCat("open files: ", files->soft.has_value()
                                                  ? absl::StrCat(*files->soft)
                                                  : "unlimited"));
  }
  const std::optional<Limit> space = ReadLimit(root, "Max address space");
  if (space.has_value() && space->soft.has_value()) {
    findings->Add(Finding::warning, "ulimits",
                  absl::StrCat("address space: ", SizeOf(space->soft)),
                  "memory for large messages can't be mapped beyond it",
                  "ulimit -v unlimited");
  }
}

// Reads the limits of the RDMA controller and of memory, wherever version 1 or
// 2 of control groups keeps them.
void CheckCgroups(const SystemRoot& root, Findings* findings) {
  const std::string rdma = GroupFolder(root, "rdma") + "/rdma.max";
  const std::string text = root.Read(rdma).value_or("");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    CheckRdmaMax(rdma, line, findings);
  }
  const std::string folder = GroupFolder(root, "memory");
  const std::string unified = folder + "/memory.max";
  const std::string file =
      root.Exists(unified) ? unified : folder + "/memory.limit_in_bytes";
  const std::optional<int64_t> bytes = root.ReadNumber(file);
  if (!bytes.has_value()) return;  // "max", or there is none.
  const uint64_t limit = static_cast<uint64_t>(*bytes);
  if (limit >= kMemoryLeast) {
    // Version 1 says "no limit" by the largest number of pages.
    if (limit < uint64_t{1} << 60) {
      findings->Ok("cgroup", "memory: " + SizeOf(limit));
    }
    return;
  }
  findings->Add(Finding::warning, "cgroup", "memory: " + SizeOf(limit),
                "registered memory counts towards it; the kernel kills the "
                "process if the limit is exceeded",
                absl::StrCat("echo 1G >", file));
}

// Pages that were set aside count first, then transparent ones, which the
// kernel must allow.
void CheckHugePages(const SystemRoot& root, Findings* findings) {
  const std::string pages = "/sys/kernel/mm/hugepages/hugepages-2048kB";
  const std::optional<int64_t> all = root.ReadNumber(pages + "/nr_hugepages");
  const std::string transparent =
      root.Read("/sys/kernel/mm/transparent_hugepage/enabled").value_or("");
  const bool by_advice = absl::StrContains(transparent, "[madvise]") ||
                         absl::StrContains(transparent, "[always]");
  if (all.value_or(0) > 0) {
    findings->Ok(
        "hugepages",
        absl::StrCat("of ", *all, " pages of 2 MiB ",
                     root.ReadNumber(pages + "/free_hugepages").value_or(0),
                     " are free"));
  } else if (by_advice) {
    findings->Ok("hugepages",
                 "none set aside; the kernel gives them where it can");
  } else {
    findings->Add(Finding::note, "hugepages", "the kernel gives no huge pages",
                  "registering large memory takes longer",
                  "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled"
                  "   # or set some aside: sysctl vm.nr_hugepages=512");
  }
}

}  // namespace verbena::doctor
