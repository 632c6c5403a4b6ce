#include "transport/soft/link/link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/base/mutex.h"

namespace verbena::soft {
namespace {

// First bytes of the memory: says that it is a link, and of which shape.
struct LinkHeader {
  uint64_t magic;
  uint64_t ring_bytes;
  std::atomic<uint64_t> secret;
  SideWords sides[2];
};
constexpr uint64_t kLinkMagic = 0x32306b6e696c6276;  // "vblink02"

// The file: one page of header, then the two rings.
constexpr size_t kHeaderBytes = 4096;
constexpr size_t kFileBytes = kHeaderBytes + 2 * kLinkRingBytes;
static_assert(sizeof(LinkHeader) <= kHeaderBytes);

// The mapping: the header, then each ring twice.
constexpr size_t kMappingBytes = kHeaderBytes + 4 * kLinkRingBytes;

constexpr unsigned int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::Status ErrnoStatus(const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("soft device link: ", what));
}

// Maps [offset, offset + length) of the file at `at`.
bool MapPart(std::byte* at, size_t length, int fd, size_t offset) {
  return mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
              static_cast<off_t>(offset)) != MAP_FAILED;
}

// Maps the whole file as described above; null and errno when it cannot. The
// addresses are reserved first, so that the parts lie one behind the other
// whatever else the process maps.
std::byte* MapParts(int fd) {
  void* reserved = mmap(nullptr, kMappingBytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  std::byte* base = static_cast<std::byte*>(reserved);
  bool mapped = MapPart(base, kHeaderBytes, fd, 0);
  for (size_t ring = 0; ring < 2 && mapped; ++ring) {
    const size_t in_file = kHeaderBytes + ring * kLinkRingBytes;
    std::byte* at = base + kHeaderBytes + ring * 2 * kLinkRingBytes;
    mapped = MapPart(at, kLinkRingBytes, fd, in_file) &&
             MapPart(at + kLinkRingBytes, kLinkRingBytes, fd, in_file);
  }
  if (mapped) return base;
  const int error = errno;
  munmap(reserved, kMappingBytes);
  errno = error;
  return nullptr;
}

}  // namespace

// A mapping of a memory file.
class LinkMemory::Mapping {
 public:
  using FileId = std::pair<dev_t, ino_t>;

  Mapping(std::byte* base, FileId id) : base_(base), id_(id) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  // When this runs the entry of the registry has expired, unless the file has
  // been mapped anew since the last owner let go: then the entry is not ours.
  ~Mapping() {
    {
      const base::MutexLock lock(Registry().mutex);
      auto found = Registry().mappings.find(id_);
      if (found != Registry().mappings.end() && found->second.expired()) {
        Registry().mappings.erase(found);
      }
    }
    munmap(base_, kMappingBytes);
  }

  std::byte* base() const { return base_; }
  LinkHeader& header() const { return *reinterpret_cast<LinkHeader*>(base_); }

  // The mappings of this process. Both ends of a connection within one process
  // then touch the same addresses: half the address space, and the thread
  // sanitizer sees how the two ends synchronise. Never destroyed, because a
  // link may outlive static destruction.
  struct MappingRegistry {
    base::Mutex mutex;
    std::map<FileId, std::weak_ptr<Mapping>> mappings ABSL_GUARDED_BY(mutex);
  };
  static MappingRegistry& Registry() {
    static MappingRegistry& registry = *new MappingRegistry;
    return registry;
  }

 private:
  std::byte* const base_;
  const FileId id_;
};

absl::StatusOr<LinkMemory> LinkMemory::MapFile(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus("fstat");
  const Mapping::FileId id{info.st_dev, info.st_ino};
  // Held while the file is mapped, so that two ends of one process do not map
  // it twice.
  const base::MutexLock lock(Mapping::Registry().mutex);
  std::weak_ptr<Mapping>& known = Mapping::Registry().mappings[id];
  if (std::shared_ptr<Mapping> mapping = known.lock()) {
    return LinkMemory(std::move(mapping));
  }
  std::byte* base = MapParts(fd);
  if (base == nullptr) {
    absl::Status status = ErrnoStatus("mmap");
    Mapping::Registry().mappings.erase(id);
    return status;
  }
  auto mapping = std::make_shared<Mapping>(base, id);
  known = mapping;
  return LinkMemory(std::move(mapping));
}

// The file is sealed before it is passed on: a peer maps only a file that can
// neither shrink nor grow.
absl::StatusOr<LinkMemory> LinkMemory::Create() {
  base::UniqueFd fd(
      memfd_create("verbena_soft_link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoStatus("memfd_create");
  if (ftruncate(fd.get(), kFileBytes) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) {
    return ErrnoStatus("sizing and sealing the memory file");
  }
  absl::StatusOr<LinkMemory> memory = MapFile(fd.get());
  if (!memory.ok()) return memory;
  memory->fd_ = std::move(fd);
  LinkHeader& header = memory->mapping_->header();
  header.magic = kLinkMagic;
  header.ring_bytes = kLinkRingBytes;
  std::random_device random;
  header.secret = uint64_t{random()} << 32 | random();
  return memory;
}

// Looks at the seals before the size: the size of a file that is not sealed
// could change after the look.
absl::StatusOr<LinkMemory> LinkMemory::Map(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  struct stat info;
  if (seals < 0 || fstat(fd, &info) != 0) {
    return ErrnoStatus("the peer's descriptor is not a memory file");
  }
  if ((seals & kSeals) != kSeals ||
      info.st_size != static_cast<off_t>(kFileBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "soft device link: the peer's memory file has size ", info.st_size,
        " and seals ", seals, "; wanted size ", kFileBytes, " and seals ",
        kSeals, " (does the peer run the same version?)"));
  }
  absl::StatusOr<LinkMemory> memory = MapFile(fd);
  if (!memory.ok()) return memory;
  const LinkHeader& header = memory->mapping_->header();
  if (header.magic != kLinkMagic || header.ring_bytes != kLinkRingBytes) {
    return absl::InvalidArgumentError(
        "soft device link: the peer's memory file has a foreign header (does "
        "the peer run the same version?)");
  }
  return memory;
}

std::byte* LinkMemory::ring(LinkSide producer) const {
  return mapping_->base() + kHeaderBytes +
         static_cast<size_t>(producer) * 2 * kLinkRingBytes;
}

uint64_t LinkMemory::secret() const { return mapping_->header().secret; }

SideWords& LinkMemory::words(LinkSide writer) const {
  return mapping_->header().sides[static_cast<size_t>(writer)];
}

}  // namespace verbena::soft
