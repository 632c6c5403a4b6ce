#include "tests/conformance/end.h"

#include <utility>

namespace verbena::conformance {
namespace {

EndOptions ForDatagrams(EndOptions options) {
  options.type = IBV_QPT_UD;
  return options;
}

}  // namespace

EndOptions WithAtomics() {
  EndOptions options;
  options.access |= IBV_ACCESS_REMOTE_ATOMIC;
  return options;
}

EndOptions Large() {
  EndOptions options;
  options.memory_bytes = 2 << 20;
  return options;
}

DatagramEnd::DatagramEnd(EndOptions options) : End(ForDatagrams(options)) {
  BringTo(IBV_QPS_RTS);
}

__attribute__((no_sanitize("thread"))) uint64_t WordByNow(End& end,
                                                          size_t offset) {
  return *const_cast<volatile uint64_t*>(&end.Word(offset));
}

}  // namespace verbena::conformance
