#include "rpc/service.h"

#include <memory>
#include <utility>

#include "rpc/support/method.h"

namespace verbena {

Service::Service(const char* full_name) : full_name_(full_name) {}

Service::~Service() = default;

void Service::AddMethod(std::unique_ptr<internal::Method> method) {
  methods_.push_back(std::move(method));
}

}  // namespace verbena
