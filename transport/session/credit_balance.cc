#include "transport/session/credit_balance.h"

namespace verbena::transport {

template class CreditRules<FrameSender>;

}  // namespace verbena::transport
