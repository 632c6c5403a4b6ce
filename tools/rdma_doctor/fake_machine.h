// A machine that a test makes up: a folder with the files that describe it.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_FAKE_MACHINE_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_FAKE_MACHINE_H_

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tools/rdma_doctor/report.pb.h"
#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

// The folder is empty at first. The destructor removes it.
class FakeMachine {
 public:
  FakeMachine()
      : folder_(testing::TempDir() + "/machine." +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;
  ~FakeMachine() { std::filesystem::remove_all(folder_); }

  const std::string& folder() const { return folder_; }
  SystemRoot root() const { return SystemRoot(folder_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  void MakeFolder(const std::string& path) {
    std::filesystem::create_directories(folder_ + path);
  }
  void Remove(const std::string& path) {
    std::filesystem::remove_all(folder_ + path);
  }

  void Load(const std::string& module) { MakeFolder("/sys/module/" + module); }

  // Adds a RoCE port on `netdev` with the address 10.0.0.7.
  void AddPort(const std::string& device, const std::string& netdev,
               int port = 1) {
    const std::string path =
        absl::StrCat("/sys/class/infiniband/", device, "/ports/", port);
    Write(path + "/state", "4: ACTIVE\n");
    Write(path + "/phys_state", "5: LinkUp\n");
    Write(path + "/link_layer", "Ethernet\n");
    Write(path + "/rate", "100 Gb/sec (4X EDR)\n");
    Write(path + "/gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456\n");
    Write(path + "/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0007\n");
    Write(path + "/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    Write(path + "/gid_attrs/types/0", "RoCE v2\n");
    Write(path + "/gid_attrs/types/1", "RoCE v2\n");
    Write(path + "/gid_attrs/ndevs/0", netdev + "\n");
    Write(absl::StrCat("/sys/class/net/", netdev, "/mtu"), "9000\n");
    Write(absl::StrCat("/sys/class/net/", netdev, "/operstate"), "up\n");
    Write(absl::StrCat("/sys/class/net/", netdev, "/carrier"), "1\n");
  }

  // Adds all files of a device that works.
  void AddDevice(const std::string& device, const std::string& uverbs,
                 const std::string& netdev) {
    for (const char* module : {"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm"}) {
      Load(module);
    }
    AddPort(device, netdev);
    Write("/sys/class/infiniband_verbs/" + uverbs + "/ibdev", device + "\n");
    Write("/dev/infiniband/" + uverbs, "");
    Write("/dev/infiniband/rdma_cm", "");
  }

  void SetMemlock(const std::string& soft, const std::string& hard) {
    Write("/proc/self/limits",
          absl::StrCat("Limit                     Soft Limit\n"
                       "Max open files            20000      20000     files\n"
                       "Max locked memory         ",
                       soft, "   ", hard, "     bytes     \n"));
  }

 private:
  const std::string folder_;
};

// Returns the findings of `report` as lines of "check: level".
inline std::string Levels(const Report& report) {
  std::string text;
  for (const Finding& finding : report.findings()) {
    absl::StrAppend(&text, finding.check(), ": ",
                    Finding::Level_Name(finding.level()), "\n");
  }
  return text;
}

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_FAKE_MACHINE_H_
