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

}  // namespace verbena::conformance
