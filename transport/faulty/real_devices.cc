#include "transport/faulty/real_devices.h"

namespace verbena::transport {
namespace {

// Name, inline, work requests, shared receives, completions, READs.
constexpr DeviceNumbers kDevices[] = {
    {"mlx4", kPlentyInline, 16351, 16383, 4194303, 16, 128},
    {"mlx5", kPlentyInline, 32768, 32767, 4194303, 16, 16},
    {"bnxt_re", 96, 65407, 65535, 1048575, 126, 126},
    {"irdma", 101, 4063, 0, 1048574, 127, 255},
    {"hns", 32, 32768, 32768, 4194304, 128, 128},
    {"qedr", 256, 32767, 32767, 8388608, 16, 16},
    {"erdma", 96, 8192, 0, 1048576, 128, 128},
    {"rxe", 400, 1048576, 1048576, 32767, 128, 128},
    {"siw", 80, 32768, 327680, 3276800, 128, 128},
    // No device, but one that is worse than all of them.
    {"least", 0, 16, 300, 700, 1, 1, /*says_enomem=*/true},
};

}  // namespace

absl::Span<const DeviceNumbers> RealDevices() { return kDevices; }

}  // namespace verbena::transport
