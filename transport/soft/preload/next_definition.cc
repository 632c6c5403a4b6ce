#include "transport/soft/preload/next_definition.h"

#include <dlfcn.h>

#include "transport/base/check.h"

namespace verbena::soft {

// Without a version, dlsym finds the default one.
NextDefinition::NextDefinition(const char* name)
    : symbol_(::dlsym(RTLD_NEXT, name)) {
  CHECK(symbol_ != nullptr)
      << "the system's libibverbs and librdmacm have no " << name
      << "; they must be of rdma-core 44 or newer";
}

}  // namespace verbena::soft
