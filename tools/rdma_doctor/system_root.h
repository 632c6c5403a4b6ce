// The files in which the kernel and the distribution describe a machine.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_SYSTEM_ROOT_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_SYSTEM_ROOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verbena::doctor {

// Reads /sys, /proc, /dev and /etc below a folder, which is "" for this
// machine. Any other folder is a copy of such files: of another machine, or
// made up by a test. Paths begin with a slash.
//
// A file that is not there and one that can't be read are the same: nothing.
class SystemRoot {
 public:
  explicit SystemRoot(std::string folder = "") : folder_(std::move(folder)) {}

  // Whether it is the machine that this process runs on.
  bool is_this_machine() const { return folder_.empty(); }

  bool Exists(const std::string& path) const;
  // Whether this process may read and write it.
  bool MayOpen(const std::string& path) const;
  // All of it, without white space at the end.
  std::optional<std::string> Read(const std::string& path) const;
  std::optional<int64_t> ReadNumber(const std::string& path) const;
  // The names in a folder, sorted; numbers by their value.
  std::vector<std::string> List(const std::string& path) const;
  // The last part of what a symbolic link points to; "" if it is none.
  std::string LinkName(const std::string& path) const;

  // A variable of the environment of this process, from /proc/self/environ.
  std::optional<std::string> Environment(const std::string& name) const;

 private:
  std::string folder_;
};

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_SYSTEM_ROOT_H_
