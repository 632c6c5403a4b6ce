// The functions behind ours: those of the system's libibverbs and librdmacm.

#ifndef VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_DEFINITION_H_
#define VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_DEFINITION_H_

namespace verbena::soft {

// The function that a program would have got if this library had not been
// preloaded. Converts to a pointer to a function of any type, so the caller
// must name the right type:
//
//   static const decltype(&ibv_set_ece) next = NextDefinition("ibv_set_ece");
class NextDefinition {
 public:
  // Takes the default version, never one of an older ABI. Ends the process with
  // a message if there is none.
  explicit NextDefinition(const char* name);

  template <typename Function>
  // NOLINTNEXTLINE(google-explicit-constructor): what it is for, see above.
  operator Function*() const {
    return reinterpret_cast<Function*>(symbol_);
  }

 private:
  void* symbol_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_DEFINITION_H_
