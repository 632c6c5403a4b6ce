// libc: whether there is a character device for soft0, without which UCX uses
// no device. Of any other file the system tells.

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "transport/soft/preload/next_definition.h"

namespace verbena::soft {
namespace {

constexpr char kCharacterDevice[] = "/dev/infiniband/soft0";

bool IsCharacterDevice(const char* path) {
  return std::strcmp(path, kCharacterDevice) == 0;
}

}  // namespace

extern "C" {

int access(const char* path, int mode) noexcept {
  if (IsCharacterDevice(path)) return 0;
  static int (*const next)(const char*, int) = NextDefinition("access");
  return next(path, mode);
}

int stat(const char* path, struct stat* out) noexcept {
  if (IsCharacterDevice(path)) {
    *out = {};
    out->st_mode = S_IFCHR | 0666;
    return 0;
  }
  static int (*const next)(const char*, struct stat*) = NextDefinition("stat");
  return next(path, out);
}

}  // extern "C"

}  // namespace verbena::soft
