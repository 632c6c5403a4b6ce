#include "tools/rdma_doctor/machine.h"

#include <linux/capability.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace verbena::doctor {
namespace {

// Longer lists of processors than any machine has are not believed.
constexpr int kProcessorsMax = 1 << 16;

std::optional<uint64_t> LimitOf(absl::string_view word) {
  uint64_t value = 0;
  // "unlimited" is the only word that is no number.
  if (!absl::SimpleAtoi(word, &value)) return std::nullopt;
  return value;
}

}  // namespace

// Files that runtimes leave come first, then the environment of Kubernetes,
// then control groups.
bool IsInContainer(const SystemRoot& root) {
  if (root.Exists("/.dockerenv") || root.Exists("/run/.containerenv") ||
      IsInKubernetes(root)) {
    return true;
  }
  // Container runtimes put the first process into groups with their names.
  const std::string groups = root.Read("/proc/1/cgroup").value_or("");
  for (const char* word : {"docker", "containerd", "kubepods", "libpod"}) {
    if (absl::StrContains(groups, word)) return true;
  }
  return false;
}

bool IsInKubernetes(const SystemRoot& root) {
  return root.Environment("KUBERNETES_SERVICE_HOST").has_value();
}

std::string HowToGetDevices(const SystemRoot& root) {
  if (IsInKubernetes(root)) {
    return "resources: {limits: {rdma/hca: 1}} in the pod's container   # "
           "by what name your device plugin offers it: kubectl describe node";
  }
  return "docker run --network=host --device=/dev/infiniband "
         "--cap-add=IPC_LOCK --ulimit memlock=-1 ...";
}

std::string ProcessStatus(const SystemRoot& root, absl::string_view name) {
  const std::string text = root.Read("/proc/self/status").value_or("");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, absl::StrCat(name, ":"))) {
      return std::string(absl::StripAsciiWhitespace(line));
    }
  }
  return "";
}

// Effective capabilities are a hexadecimal mask.
bool MayLockAnyMemory(const SystemRoot& root) {
  uint64_t capabilities = 0;
  return absl::SimpleHexAtoi(ProcessStatus(root, "CapEff"), &capabilities) &&
         (capabilities >> CAP_IPC_LOCK & 1) != 0;
}

std::optional<Limit> ReadLimit(const SystemRoot& root, absl::string_view name) {
  const std::string text = root.Read("/proc/self/limits").value_or("");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, absl::StrCat(name, " "))) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipWhitespace());
    if (words.size() < 2) return std::nullopt;
    return Limit{LimitOf(words[0]), LimitOf(words[1])};
  }
  return std::nullopt;
}

// Bounded by kProcessorsMax, because the text may come from a copy that
// somebody made up.
std::set<int> ParseRanges(absl::string_view text) {
  std::set<int> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0;
    int last = 0;
    if (!absl::SimpleAtoi(ends.first, &first) || first < 0) continue;
    // "8" is a range of one.
    if (!absl::SimpleAtoi(ends.second, &last)) last = first;
    for (int i = first; i <= std::min(last, kProcessorsMax); ++i) {
      numbers.insert(i);
    }
  }
  return numbers;
}

// Looks for device plugins if this is a Kubernetes node, and for missing
// devices if this is a container.
void CheckContainer(const SystemRoot& root, bool has_devices,
                    Findings* findings) {
  // The sockets of device plugins, if this machine is a Kubernetes node.
  std::vector<std::string> plugins;
  for (const std::string& name : root.List("/var/lib/kubelet/device-plugins")) {
    if (absl::EndsWith(name, ".sock") && name != "kubelet.sock") {
      plugins.push_back(name);
    }
  }
  if (root.Exists("/var/lib/kubelet/device-plugins")) {
    if (plugins.empty()) {
      findings->Add(Finding::note, "kubernetes",
                    "this node has no device plugin",
                    "pods that are not privileged get no RDMA device",
                    "kubectl apply -k deployment/k8s/base   # in a clone of "
                    "github.com/Mellanox/k8s-rdma-shared-dev-plugin");
    } else {
      findings->Ok("kubernetes", absl::StrCat("device plugins of this node: ",
                                              absl::StrJoin(plugins, ", ")));
    }
  }
  if (!IsInContainer(root)) {
    findings->Ok("container", "this process is not in a container");
  } else if (!has_devices &&
             root.Read("/sys/module/ib_core/parameters/netns_mode") == "N") {
    findings->Add(Finding::note, "container",
                  "the kernel gives each RDMA device to one network namespace",
                  "the host's devices are not visible here",
                  "rdma system set netns shared   # on the host, as root; or "
                  "rdma dev set DEVICE netns NAME");
  } else if (has_devices && !root.Exists("/dev/infiniband")) {
    findings->Add(Finding::error, "container",
                  "the host has RDMA devices, this container has no "
                  "/dev/infiniband",
                  "no program here can use them", HowToGetDevices(root));
  } else {
    findings->Ok("container", IsInKubernetes(root)
                                  ? "this process is in a pod of Kubernetes"
                                  : "this process is in a container");
  }
}

}  // namespace verbena::doctor
