// Fuzzes RemoteArenas, a server's record of the arenas of a client. The client
// adds and removes arenas in any order. Find() must only find ranges in them.

#include <cstddef>
#include <cstdint>
#include <map>

#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/wire/hello.h"
#include "transport/wire/remote_arenas.h"

namespace verbena::transport {
namespace {

void Run(fuzz::FuzzInput input) {
  RemoteArenas arenas;
  std::map<uint16_t, ArenaDescriptor> offered;
  while (!input.empty()) {
    const auto index = input.Take<uint16_t>();
    switch (input.Below(3)) {
      case 0: {
        const ArenaDescriptor arena = {input.Take<uint64_t>(),
                                       input.Take<uint64_t>(),
                                       input.Take<uint32_t>()};
        if (arenas.Add(index, arena).ok()) {
          CHECK(offered.emplace(index, arena).second);
        }
        break;
      }
      case 1:
        if (arenas.Remove(index).ok()) CHECK_EQ(offered.erase(index), 1);
        break;
      default: {
        const auto offset = input.Take<uint32_t>();
        const auto bytes = input.Take<uint64_t>();
        RemoteArenas::RemoteRange range;
        if (!arenas.Find(index, offset, bytes, &range)) break;
        const ArenaDescriptor& arena = offered.at(index);
        CHECK_EQ(range.rkey, arena.rkey);
        CHECK_EQ(range.address - arena.address, offset);
        CHECK_LE(bytes, arena.bytes);
        CHECK_LE(offset, arena.bytes - bytes);
      }
    }
  }
}

}  // namespace
}  // namespace verbena::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::transport::Run({data, size});
  return 0;
}
