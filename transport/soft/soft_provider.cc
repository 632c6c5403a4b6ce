#include "transport/soft/soft_provider.h"

#include "transport/soft/cm/cm_ops.h"
#include "transport/soft/verbs/verbs_table.h"

namespace verbena::soft {

const transport::Provider& SoftProvider() {
  static const transport::Provider provider = {"soft", SoftVerbsOps(),
                                               SoftCmOps()};
  return provider;
}

}  // namespace verbena::soft
